// A Summary as it stands in a result record: {n, median, mean, stddev, p10, p90, p99, min, max}.
#pragma once

#include "lib/measure/statistics.h"
#include "lib/results/value.h"

namespace attn {

Fields summary_fields(const Summary& summary);

}  // namespace attn
