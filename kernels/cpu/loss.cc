// Negative log-likelihood of target tokens.
#include "kernels/cpu/loss.h"

#include <cmath>

#include "kernels/cpu/simd.h"

namespace attn::cpu {

namespace {

// logit - logit is 0, or NaN for a logit that is not finite.
double row_loss(const float* logits, std::int64_t vocab, std::int32_t target) {
  const std::int64_t whole = vocab - vocab % kLanes;
  Vec best = broadcast(-kInfinity);
  for (std::int64_t i = 0; i < whole; i += kLanes) best = maximum(load(logits + i), best);
  float top = largest(best);
  for (std::int64_t i = whole; i < vocab; ++i) top = logits[i] > top ? logits[i] : top;
  DoubleVec total{};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Vec logit = load(logits + i);
    total += __builtin_convertvector(exp_nonpositive(logit - top) + (logit - logit), DoubleVec);
  }
  double denominator = 0;
  for (int i = 0; i < kLanes; ++i) denominator += total[i];
  for (std::int64_t i = whole; i < vocab; ++i)
    denominator +=
        std::exp(static_cast<double>(logits[i] - top)) + static_cast<double>(logits[i] - logits[i]);
  return std::log(denominator) - (static_cast<double>(logits[target]) - static_cast<double>(top));
}

}  // namespace

void token_losses(const TokenLosses& p) {
#pragma omp parallel for schedule(static) if (p.rows > 1)
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int32_t target = p.targets[row];
    p.losses[row] = target < 0 ? 0.0 : row_loss(p.logits + row * p.logits_step, p.vocab, target);
  }
}

}  // namespace attn::cpu
