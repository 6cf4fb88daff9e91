// The order of the keys is the documented one.
#include "apps/attnbench/sensor_fields.h"

namespace attn {

Fields sensor_fields(const SensorSummary& s, const SensorInfo& info) {
  Fields fields{
      {"source", info.source},
      {"windows", s.windows},
      {"seconds", s.seconds},
      {"samples", s.samples},
      {"sm_clock_mhz", Fields{{"median", s.sm_clock_median_mhz}, {"min", s.sm_clock_min_mhz}}},
      {"memory_clock_mhz", Fields{{"median", s.memory_clock_median_mhz}, {"min", s.memory_clock_min_mhz}}},
      {"mean_power_w", s.mean_power_w},
      {"max_temperature_c", s.max_temperature_c},
      {"throttle_reasons", s.throttle_reasons},
      {"energy_j", s.energy_j}};
  if (s.mean_power_w) fields["power_source"] = s.power_source;
  if (s.energy_j) {
    fields["energy_source"] = s.energy_source;
    fields["energy_error"] = s.energy_error;
  }
  fields["missing"] = s.missing;
  return fields;
}

Fields no_sensor_fields(const std::string& why_not) {
  return {{"source", nullptr}, {"missing", std::vector<std::string>{why_not}}};
}

}  // namespace attn
