// Activation functions over a row, in place.
#include "kernels/cpu/activation.h"

#include "kernels/cpu/simd.h"

namespace attn::cpu {

namespace {

template <typename Function>
ATTN_INLINE void over_row(float* row, std::int64_t size, const Function& function) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(row + i, function(load(row + i)));
  if (i == size) return;
  float tail[kLanes] = {};
  for (std::int64_t n = i; n < size; ++n) tail[n - i] = row[n];
  store(tail, function(load(tail)));
  for (std::int64_t n = i; n < size; ++n) row[n] = tail[n - i];
}

// 1 - Phi(a) for a >= 0 is e^(-a^2/2) G(a) with G smooth. G(a) / u is a polynomial in u - 5/8, u = 4 / (4 +
// a), fitted (Chebyshev, relative error 1.6e-8 on [0, 14], where the exponential has already left f32). a^2 /
// 2 is taken in two parts, the first of them exact, so that the exponential keeps its relative precision in
// the tail.
ATTN_INLINE Vec upper_tail(Vec a) {
  const Vec u = 4.0F / (4.0F + a);
  const Vec w = u - 0.625F;
  Vec g = w * 0.02878473597F - 0.0235844177F;
  g = g * w - 0.09193324148F;
  g = g * w + 0.00270420698F;
  g = g * w + 0.2628632571F;
  g = g * w + 0.5006882828F;
  g = g * w + 0.5506210273F;
  g = g * w + 0.4201683172F;
  g = g * w + 0.2336530271F;
  IntVec bits;
  __builtin_memcpy(&bits, &a, sizeof bits);
  bits = bits & ~0xfff;  // 12 significant bits: the square is exact
  Vec high;
  __builtin_memcpy(&high, &bits, sizeof high);
  const Vec rest = a < 16.0F ? -0.5F * (a - high) * (a + high) : Vec{};
  return exp_with_tail(-0.5F * high * high, rest) * (g * u);
}

ATTN_INLINE Vec sigmoid(Vec x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace

void gelu_erf(float* row, std::int64_t size) {
  over_row(row, size, [](Vec x) {
    const Vec tail = upper_tail(x < 0 ? -x : x);
    return x * (x < 0 ? tail : 1.0F - tail);
  });
}

// (1 + tanh(t)) / 2 = sigmoid(2 t).
void gelu_tanh(float* row, std::int64_t size) {
  over_row(row, size, [](Vec x) { return x * sigmoid(x * (1.595769122F + 0.0713548163F * x * x)); });
}

void relu(float* row, std::int64_t size) {
  over_row(row, size, [](Vec x) { return x < 0 ? Vec{} : x; });
}

void silu(float* row, std::int64_t size) {
  over_row(row, size, [](Vec x) { return x * sigmoid(x); });
}

}  // namespace attn::cpu
