// Negative log-likelihood of target tokens.
#pragma once

#include <cstdint>

namespace attn::cpu {

struct TokenLosses {
  const float* logits;  // [rows, vocab]
  std::int64_t logits_step;
  std::int64_t rows, vocab;
  const std::int32_t* targets;  // [rows]; below 0: loss 0
  double* losses;               // [rows]
};

// ln(sum_v exp(logit_v - maximum)) - (logit_target - maximum); exponentials in f32, their sum in double.
// NaN where any logit of the row is not finite.
void token_losses(const TokenLosses& args);

}  // namespace attn::cpu
