// Sums of blocks come from running sums, so a resample costs one step a block.
#include "lib/eval/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/eval/moments.h"

namespace attn {

std::optional<BlockBootstrap> block_bootstrap(std::span<const double> values, std::span<const double> weights,
                                              std::int64_t resamples, std::uint64_t seed,
                                              std::int64_t value_tokens) {
  if (!weights.empty() && weights.size() != values.size())
    fail(ErrorKind::internal, "{} weights for {} values", weights.size(), values.size());
  const auto count = values.size();
  if (count < 2) return std::nullopt;
  const auto tokens = static_cast<double>(value_tokens);
  const auto block = std::max<std::size_t>(
      1, static_cast<std::size_t>(
             std::lround(std::ceil(std::sqrt(static_cast<double>(count) * tokens)) / tokens)));
  const auto weight = [&](std::size_t i) { return weights.empty() ? 1.0 : weights[i]; };
  // Deviations from the mean, so that the running sums stay small.
  double total = 0, mass = 0;
  for (std::size_t i = 0; i < count; ++i) {
    total += weight(i) * values[i];
    mass += weight(i);
  }
  const double mean = total / mass;
  // Of the circle and a block more: entry i is the sum before value i.
  std::vector<double> sums(count + block + 1), masses(count + block + 1);
  for (std::size_t i = 0; i < count + block; ++i) {
    const std::size_t at = i % count;
    sums[i + 1] = sums[i] + weight(at) * (values[at] - mean);
    masses[i + 1] = masses[i] + weight(at);
  }
  const std::size_t blocks = (count + block - 1) / block;
  RunningMoments means;
  for (std::int64_t resample = 0; resample < resamples; ++resample) {
    double drawn = 0, drawn_mass = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t begin = random_bits(seed, static_cast<std::uint64_t>(resample), b) % count;
      drawn += sums[begin + block] - sums[begin];
      drawn_mass += masses[begin + block] - masses[begin];
    }
    means.add(drawn / drawn_mass);
  }
  return BlockBootstrap{std::sqrt(means.variance()), static_cast<std::int64_t>(block) * value_tokens,
                        resamples, seed};
}

}  // namespace attn
