// The sampling thread, and sums over windows.
#include "lib/measure/sensor_log.h"

#include <algorithm>

#include <fmt/format.h>

#include "lib/measure/statistics.h"

namespace attn {

SensorLog::SensorLog(std::unique_ptr<Sensors> sensors, std::chrono::duration<double> period)
    : sensors_(std::move(sensors)), period_(period), thread_([this] { run(); }) {}

SensorLog::~SensorLog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<double> SensorLog::read_energy() {
  const std::lock_guard lock(reading_);
  return sensors_->read_energy_j();
}

void SensorLog::begin() {
  const std::optional<double> energy = read_energy();
  {
    const std::lock_guard lock(mutex_);
    window_ = {};
    energy_before_ = energy;
    ++number_;
    open_ = true;
    begun_ = Clock::now();
  }
  changed_.notify_all();
}

SensorWindow SensorLog::end() {
  SensorWindow window;
  std::optional<double> before;
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    window = std::move(window_);
    window_ = {};
    before = energy_before_;
    window.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  }
  changed_.notify_all();
  const std::optional<double> after = read_energy();
  if (before && after && *after >= *before) window.energy_j = *after - *before;
  return window;
}

void SensorLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || open_; });
    if (stop_) return;
    const std::size_t number = number_;
    const auto over = [&] { return stop_ || !open_ || number_ != number; };
    std::chrono::duration<double> pause = period_ / 2;
    while (!changed_.wait_for(lock, pause, over)) {
      lock.unlock();
      SensorSample sample;
      {
        const std::lock_guard reading(reading_);
        sample = sensors_->read();
      }
      const auto now = Clock::now();
      lock.lock();
      if (over()) break;  // read after the window: not of it
      window_.samples.push_back(sample);
      window_.sample_s.push_back(std::chrono::duration<double>(now - begun_).count());
      pause = period_;
    }
  }
}

namespace {

constexpr std::size_t kLeastSamples = 3;
constexpr double kMostError = 0.2;
constexpr double kUnknownRenewal_s = 0.1;  // NVML's slowest

std::vector<double> values_of(std::span<const SensorWindow> windows,
                              std::optional<double> SensorSample::*which) {
  std::vector<double> values;
  for (const SensorWindow& window : windows) {
    for (const SensorSample& sample : window.samples) {
      if (sample.*which) values.push_back(*(sample.*which));
    }
  }
  return values;
}

// The median time between two changes of the counter inside a window, as far as sampling can see it.
double renewal_s(std::span<const SensorWindow> windows, double period_s) {
  std::vector<double> gaps;
  for (const SensorWindow& window : windows) {
    std::optional<double> changed_at;
    for (std::size_t i = 1; i < window.samples.size(); ++i) {
      const auto& before = window.samples[i - 1].energy_j;
      const auto& now = window.samples[i].energy_j;
      if (!before || !now || *before == *now) continue;
      if (changed_at) gaps.push_back(window.sample_s[i] - *changed_at);
      changed_at = window.sample_s[i];
    }
  }
  return std::max(period_s, median(gaps).value_or(kUnknownRenewal_s));
}

void add_energy(SensorSummary& summary, std::span<const SensorWindow> windows, const SensorInfo& info,
                double period_s) {
  double counted = 0;
  bool whole = !windows.empty();
  for (const SensorWindow& window : windows) {
    whole = whole && window.energy_j;
    counted += window.energy_j.value_or(0);
  }
  const double count = static_cast<double>(windows.size());
  const auto why_short = [&](double span_s, const char* what) {
    return fmt::format(
        "energy: {} windows of {:.3f} s in all are too short for {} that is renewed every {:.3f} s",
        windows.size(), summary.seconds, what, span_s);
  };
  if (whole) {
    const double span_s = renewal_s(windows, period_s);
    summary.energy_error = span_s * count / summary.seconds;
    if (summary.energy_error > kMostError) {
      summary.missing.push_back(why_short(span_s, "a counter"));
      return;
    }
    summary.energy_j = counted;
    summary.energy_source = "energy counter";
    summary.mean_power_w = counted / summary.seconds;
    summary.power_source = "energy counter over time";
    return;
  }
  const std::vector<double> power = values_of(windows, &SensorSample::power_w);
  if (power.size() < kLeastSamples) {
    summary.missing.push_back(
        fmt::format("power and energy: {} samples of the power in {} windows of {:.3f} s", power.size(),
                    windows.size(), summary.seconds));
    return;
  }
  const double span_s = std::max(info.power_span_s, period_s);
  summary.energy_error = span_s * count / summary.seconds;
  if (summary.energy_error > kMostError) {
    summary.missing.push_back(why_short(span_s, "a power"));
    return;
  }
  summary.mean_power_w = summary_of(power)->mean;
  summary.power_source = info.power_source;
  summary.energy_j = *summary.mean_power_w * summary.seconds;
  summary.energy_source = "integral of " + info.power_source;
}

}  // namespace

SensorSummary summary_of(std::span<const SensorWindow> windows, const Sensors& sensors, double period_s) {
  const SensorInfo info = sensors.info();
  SensorSummary summary;
  summary.missing = info.missing;
  summary.windows = windows.size();
  for (const SensorWindow& window : windows) {
    summary.seconds += window.seconds;
    summary.samples += window.samples.size();
  }
  if (windows.empty() || summary.seconds <= 0) {
    summary.missing.emplace_back("no window was timed");
    return summary;
  }
  if (summary.samples < kLeastSamples) {
    summary.missing.push_back(
        fmt::format("clocks, temperature, throttle reasons: {} samples, one every {:.3f} s, in {} windows of "
                    "{:.3f} s in all; {} are needed",
                    summary.samples, period_s, windows.size(), summary.seconds, kLeastSamples));
  } else {
    const auto add_clock = [&](std::optional<double> SensorSample::*which, std::optional<double>& middle,
                               std::optional<double>& least) {
      const auto values = summary_of(values_of(windows, which));
      if (!values) return;
      middle = values->median;
      least = values->min;
    };
    add_clock(&SensorSample::sm_clock_mhz, summary.sm_clock_median_mhz, summary.sm_clock_min_mhz);
    add_clock(&SensorSample::memory_clock_mhz, summary.memory_clock_median_mhz, summary.memory_clock_min_mhz);
    if (const auto heat = summary_of(values_of(windows, &SensorSample::temperature_c)))
      summary.max_temperature_c = heat->max;
    std::optional<std::uint64_t> reasons;
    for (const SensorWindow& window : windows) {
      for (const SensorSample& sample : window.samples) {
        if (sample.throttle_reasons) reasons = reasons.value_or(0) | *sample.throttle_reasons;
      }
    }
    if (reasons) summary.throttle_reasons = sensors.reason_names(*reasons);
  }
  add_energy(summary, windows, info, period_s);
  return summary;
}

}  // namespace attn
