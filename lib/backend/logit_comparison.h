// The comparison of two rows of logits on the host: the truth for every device's.
#pragma once

#include <cstdint>

#include "kernels/logit_comparison.h"

namespace attn {

// base and other: [vocab], vocab at least 1. A target below 0 is none.
LogitComparison compare_logit_rows(const float* base, const float* other, std::int64_t vocab,
                                   std::int32_t target);

}  // namespace attn
