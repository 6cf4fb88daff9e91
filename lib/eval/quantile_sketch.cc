// Bins by exponent and leading bits of the fraction.
#include "lib/eval/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

constexpr int kLowestExponent = -64, kExponents = 88;  // 2^-64 ... 2^24
constexpr int kFractionBits = 7;
constexpr std::size_t kBinsAnExponent = std::size_t{1} << kFractionBits;
constexpr std::size_t kBins = kExponents * kBinsAnExponent;

std::size_t bin_of(double size) {
  if (size >= QuantileSketch::kLargest) return kBins - 1;
  // Exponent and leading fraction bits stand side by side in a double: one number that grows with the value.
  constexpr std::uint64_t kFirst = (std::uint64_t{1023} + kLowestExponent) << kFractionBits;
  return static_cast<std::size_t>((std::bit_cast<std::uint64_t>(size) >> (52 - kFractionBits)) - kFirst);
}

double middle_of(std::size_t bin) {
  const double fraction = (static_cast<double>(bin % kBinsAnExponent) + 0.5) / kBinsAnExponent;
  return std::ldexp(1 + fraction, kLowestExponent + static_cast<int>(bin / kBinsAnExponent));
}

}  // namespace

void QuantileSketch::count_in(Bins& bins, double size) {
  if (bins.empty()) bins.resize(kBins);
  ++bins[bin_of(size)];
}

void QuantileSketch::add(double value) {
  if (!std::isfinite(value)) fail(ErrorKind::internal, "a percentile of {} was asked for", value);
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  const double size = std::fabs(value);
  if (size < kSmallest) {
    ++zeros_;
  } else {
    count_in(value < 0 ? negative_ : positive_, size);
  }
}

std::optional<double> QuantileSketch::quantile(double fraction) const {
  if (count_ == 0) return std::nullopt;
  const auto asked = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count_)));
  const std::int64_t rank = std::clamp<std::int64_t>(asked, 1, count_);
  if (rank == 1) return min_;
  if (rank == count_) return max_;
  std::int64_t below = 0;
  for (std::size_t i = negative_.size(); i-- > 0;) {
    below += negative_[i];
    if (below >= rank) return std::clamp(-middle_of(i), min_, max_);
  }
  below += zeros_;
  if (below >= rank) return 0;
  for (std::size_t i = 0; i < positive_.size(); ++i) {
    below += positive_[i];
    if (below >= rank) return std::clamp(middle_of(i), min_, max_);
  }
  return max_;
}

}  // namespace attn
