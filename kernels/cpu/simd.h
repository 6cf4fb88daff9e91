// One SIMD register of f32 as the target has it (GCC vector extensions): loads, selection, sums, exp.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

namespace attn::cpu {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t IntVec __attribute__((vector_size(kLanes * 4)));
typedef double DoubleVec __attribute__((vector_size(kLanes * 8)));

#define ATTN_INLINE [[gnu::always_inline]] inline

ATTN_INLINE Vec load(const float* source) {
  Vec v;
  __builtin_memcpy(&v, source, sizeof v);
  return v;
}

ATTN_INLINE void store(float* target, Vec v) { __builtin_memcpy(target, &v, sizeof v); }

ATTN_INLINE Vec broadcast(float x) {
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = x;
  return v;
}

// The second where the two do not compare, so a NaN in `a` is passed over: it must reach the result another
// way.
ATTN_INLINE Vec maximum(Vec a, Vec b) { return a > b ? a : b; }

// Lane i plus lane i + kWidth, then half the width, down to one lane.
template <int kWidth, int... kLane>
ATTN_INLINE float sum_halves(Vec v, std::integer_sequence<int, kLane...> lanes) {
  v += __builtin_shufflevector(v, v, ((kLane + kWidth) % kLanes)...);
  if constexpr (kWidth > 1) {
    return sum_halves<kWidth / 2>(v, lanes);
  } else {
    return v[0];
  }
}

ATTN_INLINE float sum(Vec v) { return sum_halves<kLanes / 2>(v, std::make_integer_sequence<int, kLanes>()); }

// One halving step of sums(): in each block of 2 * kWidth lanes, the block of `a` folded to its first half
// and the block of `b` to its second.
template <int kWidth, int... kLane>
ATTN_INLINE Vec fold_pair(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  constexpr auto source = [](int lane) {
    const int within = lane % (2 * kWidth);
    return lane - within + (within < kWidth ? within : kLanes + within - kWidth);
  };
  return __builtin_shufflevector(a, b, source(kLane)...) +
         __builtin_shufflevector(a, b, (source(kLane) + kWidth)...);
}

template <int kWidth>
ATTN_INLINE void fold_all(Vec* v) {
  for (int i = 0; i < kWidth; ++i)
    v[i] = fold_pair<kWidth>(v[i], v[i + kWidth], std::make_integer_sequence<int, kLanes>());
  if constexpr (kWidth > 1) fold_all<kWidth / 2>(v);
}

// Lane i becomes the sum over the lanes of v[i]; v is used up.
ATTN_INLINE Vec sums(Vec (&v)[kLanes]) {
  fold_all<kLanes / 2>(v);
  return v[0];
}

ATTN_INLINE float largest(Vec v) {
  float best = v[0];
  for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// e^(x + tail) for |tail| much smaller than 1: n = round(x / ln 2), r = x - n ln 2 (in two parts, Cody and
// Waite) + tail, then 2^n times the Taylor series of e^r to degree 7, whose remainder is below 6e-9 for |r|
// <= ln(2) / 2. Within 2 units in the last place; 0 below -87.336 (no subnormals), infinity above 88.376; NaN
// stays NaN.
ATTN_INLINE Vec exp_with_tail(Vec x, Vec tail) {
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 * 2^23: adding it leaves the integer in the low bits
  const Vec shifted = x * 1.44269504F + kRoundToInteger;
  const Vec n = shifted - kRoundToInteger;
  Vec r = x - n * 0.693145751953125F;
  r = r - n * 1.42860677e-6F;
  r = r + tail;
  Vec p = r * (1.0F / 5040) + (1.0F / 720);
  p = p * r + (1.0F / 120);
  p = p * r + (1.0F / 24);
  p = p * r + (1.0F / 6);
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  IntVec bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  Vec power;
  __builtin_memcpy(&power, &bits, sizeof power);
  p = p * power;
  p = x < -87.3365F ? Vec{} : p;
  return x > 88.376F ? broadcast(kInfinity) : p;
}

ATTN_INLINE Vec exp(Vec x) { return exp_with_tail(x, Vec{}); }

// For x <= 0 (softmax): as exp(), without the test for overflow.
ATTN_INLINE Vec exp_nonpositive(Vec x) {
  constexpr float kRoundToInteger = 12582912.0F;
  const Vec shifted = x * 1.44269504F + kRoundToInteger;
  const Vec n = shifted - kRoundToInteger;
  Vec r = x - n * 0.693145751953125F;
  r = r - n * 1.42860677e-6F;
  Vec p = r * (1.0F / 5040) + (1.0F / 720);
  p = p * r + (1.0F / 120);
  p = p * r + (1.0F / 24);
  p = p * r + (1.0F / 6);
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  IntVec bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  Vec power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return x < -87.3365F ? Vec{} : p * power;
}

}  // namespace attn::cpu
