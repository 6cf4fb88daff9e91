// NVML by a library of the test's own, and the sensors and the read kernel of a real GPU.
#include <chrono>
#include <thread>

#include "lib/backend_cuda/nvml.h"
#include "lib/measure/ceiling.h"
#include "lib/measure/sensor_log.h"
#include "tests/gpu.h"

using namespace attn;

TEST_CASE("NVML that is not there or does not know the GPU is told in words") {
  const SensorAccess none = open_nvml_sensors("0000:1b:00.0", "libno-such-nvml.so.1");
  CHECK(none.sensors == nullptr);
  CHECK(none.why_not.find("libno-such-nvml") != std::string::npos);
  const SensorAccess other = open_nvml_sensors("0000:99:00.0", ATTN_FAKE_NVML);
  CHECK(other.sensors == nullptr);
  CHECK(other.why_not.find("Not Found") != std::string::npos);
  // A library without its entry points.
  const SensorAccess wrong = open_nvml_sensors("0000:1b:00.0", "libm.so.6");
  CHECK(wrong.sensors == nullptr);
  CHECK(wrong.why_not.find("entry point") != std::string::npos);
}

TEST_CASE("NVML's readings come in our units and what is unsupported is missing by name") {
  const SensorAccess access = open_nvml_sensors("0000:1b:00.0", ATTN_FAKE_NVML);
  CAPTURE(access.why_not);
  REQUIRE(access.sensors != nullptr);
  const SensorInfo info = access.sensors->info();
  CHECK(info.source == "NVML, driver 999.1");
  CHECK(info.power_source == "NVML_FI_DEV_POWER_INSTANT");
  REQUIRE(info.missing.size() == 1);
  CHECK(info.missing[0] == "temperature: Not Supported");
  const SensorSample sample = access.sensors->read();
  CHECK(*sample.sm_clock_mhz == 1980);
  CHECK(*sample.memory_clock_mhz == 2619);
  CHECK(*sample.power_w == Approx(612.5));
  CHECK(*sample.energy_j == Approx(1234.5));
  CHECK_FALSE(sample.temperature_c);
  CHECK(access.sensors->reason_names(*sample.throttle_reasons) ==
        std::vector<std::string>{"sw_power_cap", "unknown bits 0x400"});
}

TEST_CASE("a GPU at work shows its clocks or says why it does not") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  SensorAccess access = device.sensors();
  if (access.sensors == nullptr) {
    CHECK_FALSE(access.why_not.empty());
    ATTN_SKIP(access.why_not.c_str());
  }
  const std::size_t bytes = std::size_t{1} << 30;
  const Buffer buffer = device.allocate(bytes, MemoryUse::other);
  device.fill_zero(buffer.data(), bytes);
  SensorLog log(std::move(access.sensors));
  log.begin();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    for (int n = 0; n < 20; ++n) device.read(buffer.data(), bytes);
    device.synchronize();
  }
  const std::vector<SensorWindow> windows{log.end()};
  const SensorSummary summary = summary_of(windows, log.sensors(), log.period_s());
  std::string missing;
  for (const std::string& one : summary.missing) missing += one + "; ";
  CAPTURE(log.sensors().info().source, summary.samples, missing, summary.energy_source, summary.energy_error);
  CHECK(summary.samples >= 20);
  if (summary.sm_clock_median_mhz) CHECK(*summary.sm_clock_median_mhz > 100);
  if (summary.max_temperature_c) CHECK(*summary.max_temperature_c > 10);
  if (summary.energy_j) {
    CHECK(*summary.mean_power_w > 20);
    CHECK(*summary.mean_power_w < 2000);
  }
}

TEST_CASE("reading alone is at least as fast as copying and takes as long as its bytes") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  const std::size_t cache = device.info().cache_bytes;
  CHECK(cache >= (std::size_t{1} << 20));
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{192}, std::size_t{1} << 20}) {
    const Buffer buffer = device.allocate(bytes, MemoryUse::other);
    device.read(buffer.data(), bytes);
    device.synchronize();
  }
  const Ceiling copy = copy_ceiling(device, 8 * cache);
  const ReadCeiling read = read_ceiling(device, std::size_t{4} << 30, 8 * cache);
  const ReadCeiling half = read_ceiling(device, std::size_t{2} << 30, 8 * cache);
  CAPTURE(copy.best, read.gb_s.best, half.gb_s.best, read.bytes);
  CHECK(read.gb_s.best > 0.9 * copy.best);
  CHECK(read.gb_s.best == Approx(half.gb_s.best).epsilon(0.1));  // no byte is skipped
}
