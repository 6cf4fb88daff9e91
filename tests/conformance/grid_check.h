// The grid of shapes against mode reference of the same device, by two criteria.
#pragma once

#include <cstdint>

#include "tests/conformance/attention_run.h"

namespace attn::conformance {

struct GridPart {
  std::int64_t most_products = INT64_MAX;  // of two numbers, in Q K^T: larger cases are left out
  int every = 1;                           // of the cases that are left
};

struct GridResult {
  Failures failures;
  int checked = 0;  // cases, each dtype for itself
};

// The truth is mode reference with f32 tensors that hold the numbers rounded to the dtype: f64 inside, and
// not rounded to 16 bits. It must have no NaN. In 16 bits every kernel of the backend must fulfil (a) for
// each number |out - truth| <= 1.1 (u sum_j p_j |v_j| + u |truth|) + 1e-5, u the unit roundoff: weights
//     and output are rounded once each, all else is f32 (1.3 for more than 4096 keys: tensor cores truncate);
// (b) maximum and mean of |out - truth| at most twice those of a naive implementation in 16 bits, which is
// mode
//     baseline with scores and weights of 16 bits.
// In f32 (every third case) a bound for each row from the sizes of q, k and v. The lse in all: within
// 1e-5 + 2^-21 (|lse| + the largest score).
GridResult check_grid(Platform& platform, AttentionBackend& backend, const GridPart& part);

}  // namespace attn::conformance
