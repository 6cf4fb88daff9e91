// The one table of attention problems that every kernel of every device must solve.
#pragma once

#include <string>
#include <vector>

#include "lib/backend/attention_problem.h"

namespace attn::conformance {

// How q, k, v lie in memory. dense: [batch, token, head, dim]. fused: views of one [batch, token, q_heads + 2
// kv_heads, dim] (needs q_len = kv_len). cache: k and v head-major [batch, head, capacity, dim], capacity
// above kv_len.
enum class Layout { dense, fused, cache };

// What the numbers are; see attention_data.cc.
enum class Fill {
  normal,        // standard normal q, k, v
  large_scores,  // q times 30: softmax nearly one-hot
  constant,      // q = 0: every visible key has weight 1 / visible
  rising,        // scores rise with the key: each tile has a new maximum
  falling,
  outlier_first,  // one key far above the others
  outlier_last,
  one_hot,        // scores so far apart that one weight is exactly 1; integer v: the output is exact
  negative,       // all scores near -6e4
  very_negative,  // all scores -1e30
  head_number     // normal q and k; every number of v is its head's number + 1
};

struct Case {
  std::string what;
  AttentionProblem problem;
  Layout layout = Layout::dense;
  Fill fill = Fill::normal;
};

// Each aimed at something; small enough for a reference on the host.
std::vector<Case> attention_cases();

// The grid: every pair of lengths at every head dimension that has a kernel of its own, masked and not, with
// the lists of heads and batch sizes taken in turn where the problem stays small enough. For a reference on
// the device.
std::vector<Case> grid_cases();

// Some fills need numbers that a 16-bit type cannot hold.
bool can_hold(DType dtype, Fill fill);

}  // namespace attn::conformance
