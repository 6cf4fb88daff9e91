// What the sensors showed, as it stands in a result record.
#pragma once

#include "lib/measure/sensor_log.h"
#include "lib/results/value.h"

namespace attn {

// {source, windows, seconds, samples, sm_clock_mhz {median, min}, memory_clock_mhz {median, min},
// mean_power_w, power_source, max_temperature_c, throttle_reasons, energy_j, energy_source, energy_error,
// missing}; what is not known is null, and `missing` says why.
Fields sensor_fields(const SensorSummary& summary, const SensorInfo& info);
// {source: null, missing: [why_not]}.
Fields no_sensor_fields(const std::string& why_not);

}  // namespace attn
