// The error of a mean over neighbours that are not independent: the circular block bootstrap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace attn {

struct BlockBootstrap {
  double error = 0;        // standard deviation of the resampled mean, in the unit of the values
  std::int64_t block = 0;  // tokens
  std::int64_t resamples = 0;
  std::uint64_t seed = 0;
};

inline constexpr std::int64_t kBootstrapResamples = 1000;
inline constexpr std::uint64_t kBootstrapSeed = 1;

// Of sum(weights * values) / sum(weights), or of the plain mean for no weights. Blocks of ceil(sqrt(n))
// neighbours, drawn with replacement from the values laid in a circle (Politis and Romano 1992) until they
// are n or more. The same on every machine for the same values. Nothing for fewer than two values.
//
// value_tokens: each value is the mean of so many neighbouring tokens, with their weight. A block then is
// ceil(sqrt(tokens)) tokens, rounded to whole values, at least one.
std::optional<BlockBootstrap> block_bootstrap(std::span<const double> values, std::span<const double> weights,
                                              std::int64_t resamples = kBootstrapResamples,
                                              std::uint64_t seed = kBootstrapSeed,
                                              std::int64_t value_tokens = 1);

}  // namespace attn
