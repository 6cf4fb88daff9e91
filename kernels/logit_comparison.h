// LogitComparison: what two rows of logits over one vocabulary are apart, as every device computes it.
#pragma once

#include <cstdint>

namespace attn {

// p of the base, q of the other, after softmax, in f64. Equal rows give 0 in every distance, exactly. Where a
// logit of either is not finite (-inf too: no model here masks a token), first_nonfinite says which comes
// first, and the rest is as here. The struct has no padding: equal results are equal bytes.
struct LogitComparison {
  double max_diff = 0;     // largest |base - other| of a logit
  double mean_diff = 0;    // over the vocabulary
  double kl = 0;           // KL(p || q), nats, never below 0
  double js = 0;           // Jensen and Shannon's: half of KL(p || m) + KL(q || m), nats, 0 ... ln 2
  double top5_shared = 0;  // the part of p's five largest that are among q's too, in any order
  // Of the target; 0 without one.
  double base_loss = 0, other_loss = 0;  // -ln p[target], -ln q[target]
  double delta_p = 0;                    // q[target] - p[target]
  std::int32_t target = -1;              // -1: there was none
  // The place of the largest logit; of equal ones the first counts.
  std::int32_t base_argmax = -1, other_argmax = -1;
  std::int32_t first_nonfinite = -1;  // -1: all are finite
};
static_assert(sizeof(LogitComparison) == 8 * sizeof(double) + 4 * sizeof(std::int32_t));

}  // namespace attn
