// Sensors in windows: a source that the test moves, and the thread that samples it.
#include "lib/measure/sensor_log.h"

#include <atomic>

#include "tests/catch.h"

using namespace attn;
using std::chrono::milliseconds;

namespace {

class FakeSensors : public Sensors {
 public:
  SensorInfo info() const override { return description; }
  SensorSample read() override {
    ++reads;
    SensorSample sample;
    sample.sm_clock_mhz = 1500;
    sample.energy_j = energy_j.load();
    return sample;
  }
  std::optional<double> read_energy_j() override { return energy_j.load(); }
  std::vector<std::string> reason_names(std::uint64_t bits) const override {
    std::vector<std::string> names;
    if ((bits & 1) != 0) names.emplace_back("one");
    if ((bits & 2) != 0) names.emplace_back("two");
    return names;
  }

  SensorInfo description{"fake", "fake power", 0.1, {}};
  std::atomic<double> energy_j{100};
  std::atomic<int> reads{0};
};

// `count` samples 20 ms apart of a device that draws 100 W; its counter moves every `renewal` samples.
SensorWindow window_of(int count, int renewal) {
  SensorWindow window;
  window.seconds = 0.02 * count;
  for (int i = 0; i < count; ++i) {
    SensorSample sample;
    sample.sm_clock_mhz = 1000 + 100 * (i % 3);
    sample.memory_clock_mhz = 2619;
    sample.power_w = 100;
    sample.temperature_c = 40 + i % 5;
    sample.throttle_reasons = i == 0 ? 2 : 0;
    sample.energy_j = 2.0 * (i / renewal * renewal);
    window.samples.push_back(sample);
    window.sample_s.push_back(0.02 * i + 0.01);
  }
  window.energy_j = 2.0 * count;
  return window;
}

SensorSummary summary_of_windows(const std::vector<SensorWindow>& windows) {
  return summary_of(windows, FakeSensors(), 0.02);
}

}  // namespace

TEST_CASE("sensors are read while a window is open and not else") {
  auto owned = std::make_unique<FakeSensors>();
  FakeSensors& fake = *owned;
  SensorLog log(std::move(owned), milliseconds(2));
  std::this_thread::sleep_for(milliseconds(30));
  CHECK(fake.reads == 0);
  log.begin();
  std::this_thread::sleep_for(milliseconds(100));
  fake.energy_j = 130;
  const SensorWindow window = log.end();
  CHECK(window.seconds >= 0.1);
  CHECK(window.samples.size() >= 3);
  CHECK(window.samples.size() == window.sample_s.size());
  CHECK(*window.energy_j == 30);
  const int after = fake.reads;
  std::this_thread::sleep_for(milliseconds(30));
  CHECK(fake.reads <= after + 1);  // one may have been under way
}

TEST_CASE("windows do not mix") {
  auto owned = std::make_unique<FakeSensors>();
  FakeSensors& fake = *owned;
  SensorLog log(std::move(owned), milliseconds(1));
  log.begin();
  fake.energy_j = 150;
  log.begin();  // the first was not ended, as after an error
  fake.energy_j = 157;
  CHECK(*log.end().energy_j == 7);
  fake.energy_j = 200;
  log.begin();
  const SensorWindow empty = log.end();
  CHECK(*empty.energy_j == 0);
}

TEST_CASE("windows that are long enough give clocks and power and energy") {
  const SensorSummary summary = summary_of_windows({window_of(100, 5), window_of(100, 5)});
  CHECK(summary.windows == 2);
  CHECK(summary.seconds == Approx(4));
  CHECK(*summary.sm_clock_median_mhz == 1100);
  CHECK(*summary.sm_clock_min_mhz == 1000);
  CHECK(*summary.memory_clock_min_mhz == 2619);
  CHECK(*summary.max_temperature_c == 44);
  CHECK(*summary.throttle_reasons == std::vector<std::string>{"two"});
  CHECK(*summary.energy_j == Approx(400));
  CHECK(*summary.mean_power_w == Approx(100));
  CHECK(summary.energy_source == "energy counter");
  CHECK(summary.energy_error == Approx(0.1 * 2 / 4));  // renewed every 100 ms
  CHECK(summary.missing.empty());
}

TEST_CASE("windows shorter than the counter's renewal give no energy but a reason") {
  const SensorSummary summary = summary_of_windows({window_of(10, 5), window_of(10, 5), window_of(10, 5)});
  CHECK(summary.sm_clock_median_mhz);
  CHECK_FALSE(summary.energy_j);
  CHECK_FALSE(summary.mean_power_w);
  REQUIRE(summary.missing.size() == 1);
  CHECK(summary.missing[0].find("too short") != std::string::npos);
  // A counter that is renewed with every sample serves them.
  CHECK(summary_of_windows({window_of(10, 1), window_of(10, 1)}).energy_j);
}

TEST_CASE("too few samples give no clocks but a reason") {
  const SensorSummary summary = summary_of_windows({window_of(1, 1), window_of(1, 1)});
  CHECK_FALSE(summary.sm_clock_median_mhz);
  CHECK_FALSE(summary.throttle_reasons);
  CHECK_FALSE(summary.energy_j);
  CHECK(summary.missing.size() >= 2);
  CHECK_FALSE(summary_of_windows({}).missing.empty());
}

TEST_CASE("without a counter the energy is the integral of the power and says so") {
  std::vector<SensorWindow> windows{window_of(100, 5)};
  windows[0].energy_j.reset();
  const SensorSummary summary = summary_of_windows(windows);
  CHECK(*summary.energy_j == Approx(200));
  CHECK(summary.energy_source.find("integral") != std::string::npos);
  CHECK(summary.power_source == "fake power");
  // A power that is the mean of a whole second says nothing of 2 s of windows of half a second.
  FakeSensors slow;
  slow.description.power_span_s = 1;
  std::vector<SensorWindow> short_ones(4, window_of(25, 5));
  for (SensorWindow& window : short_ones) window.energy_j.reset();
  CHECK_FALSE(summary_of(short_ones, slow, 0.02).energy_j);
}
