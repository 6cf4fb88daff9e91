// Ceilings, limits and shares as they stand in a result record.
#pragma once

#include <optional>
#include <string>

#include "lib/measure/roofline.h"
#include "lib/results/record.h"

namespace attn {

// {copy_gb_s, read_gb_s, read_bytes, [read_reason], product_tflops, product_size, [product_reason],
// cache_bytes, spread {copy, read, product}}.
Fields ceiling_fields(const Ceilings& ceilings);

// Adds limit_<name>_ms (null and limit_<name>_reason where there is none), limit_<name>_by and
// <name>_share_of_limit to the metrics. A figure that is faster than its limit allows makes the outcome
// `error`, with the reason.
void add_limit(ResultRecord& record, const std::string& name, const Limit& limit,
               std::optional<double> measured_ms);

}  // namespace attn
