// Counter-based random numbers: a value is a function of (seed, stream, index), the same on every device and
// thread.
#pragma once

#include <cmath>
#include <cstdint>

namespace attn {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that scatters close inputs.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ index);
}

// Uniform in [0, 1), 24 random bits so that the value is exact in f32.
constexpr float random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<float>(random_bits(seed, stream, index) >> 40) * 0x1p-24F;
}

// Standard normal by Box and Muller.
inline float random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = random_bits(seed, stream, index);
  const double u = (static_cast<double>(bits >> 32) + 1.0) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffffU) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
}

// Close to a standard normal and never zero: the sum of the four 16-bit parts of one hash (Irwin and Hall),
// within +-3.47. One hash and no logarithm an element, so that billions of weights take seconds. Only the
// last step rounds.
constexpr float near_normal(std::uint64_t bits) {
  constexpr float kMean =
      2 * 65535.0F - 0.5F;  // half a step off the true mean: a sum is whole, so never equal to it
  constexpr float kScale = 2.6430e-05F;  // 1 / sqrt(4 (2^32 - 1) / 12)
  const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + ((bits >> 16) & 0xffffU) +
                                             ((bits >> 32) & 0xffffU) + (bits >> 48));
  return (static_cast<float>(sum) - kMean) * kScale;
}

}  // namespace attn
