// Sensors: a device's clocks, power, temperature and energy at one moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn {

// What could not be read is missing.
struct SensorSample {
  std::optional<double> sm_clock_mhz, memory_clock_mhz;
  std::optional<double> power_w;  // over the span that SensorInfo names
  std::optional<double> temperature_c;
  std::optional<double> energy_j;                 // a counter that only grows
  std::optional<std::uint64_t> throttle_reasons;  // bits; Sensors::reason_names() spells them
};

struct SensorInfo {
  std::string source;                // e.g. "NVML, driver 580.65.06"
  std::string power_source;          // what power_w is, in words
  double power_span_s = 0;           // the time that one power_w speaks for: shorter windows say nothing
  std::vector<std::string> missing;  // what this device or user cannot read, with the reason, in words
};

// read() and read_energy_j() may be called from any thread, one at a time, and give the device no work.
class Sensors {
 public:
  virtual ~Sensors() = default;
  virtual SensorInfo info() const = 0;
  virtual SensorSample read() = 0;
  virtual std::optional<double> read_energy_j() = 0;
  virtual std::vector<std::string> reason_names(std::uint64_t bits) const = 0;
};

// Sensors, or why there are none.
struct SensorAccess {
  std::unique_ptr<Sensors> sensors;
  std::string why_not;
};

}  // namespace attn
