// QuantileSketch: percentiles of any number of values in a fixed amount of memory, the same for any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace attn {

// Counts values in bins that halve, by their leading bits, every power of two seven times over: a logarithmic
// histogram with a bounded relative error, as in Masson, Rim and Lee 2019 (DDSketch), with bin edges that a
// double's bits give without a logarithm. No sampling and no merging of bins, so the answer does not depend
// on the order of the values. At most 180 KiB, and 90 KiB where all signs are the same.
class QuantileSketch {
 public:
  // Of a percentile whose size lies between kSmallest and kLargest. Smaller values count as 0, larger ones
  // are known only by the largest of them.
  static constexpr double kRelativeError = 0x1p-8;
  static constexpr double kSmallest = 0x1p-64;
  static constexpr double kLargest = 0x1p24;

  // Throws Error{internal} for a value that is not finite.
  void add(double value);
  std::int64_t count() const { return count_; }
  // The value of rank ceil(fraction * count) in ascending order (nearest rank), fraction in [0, 1]; the
  // smallest and the largest value are exact, and so is 0. Nothing for no values.
  std::optional<double> quantile(double fraction) const;

 private:
  using Bins = std::vector<std::int64_t>;  // by size, ascending; empty until the first value
  static void count_in(Bins& bins, double size);

  Bins negative_, positive_;
  std::int64_t zeros_ = 0, count_ = 0;
  double min_ = 0, max_ = 0;
};

}  // namespace attn
