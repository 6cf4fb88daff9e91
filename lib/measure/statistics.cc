// Welford's running moments, and percentiles of the sorted samples.
#include "lib/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/core/error.h"

namespace attn {

double percentile(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double weight = position - static_cast<double>(below);
  return sorted[below] + weight * (sorted[below + 1] - sorted[below]);
}

std::optional<Summary> summary_of(std::span<const double> samples) {
  if (samples.empty()) return std::nullopt;
  Summary summary;
  double squares = 0;  // sum of squared deviations from the running mean
  for (const double x : samples) {
    if (!std::isfinite(x)) {
      fail(ErrorKind::internal, "sample {} of {} is {}", summary.n, samples.size(), x);
    }
    ++summary.n;
    const double deviation = x - summary.mean;
    summary.mean += deviation / static_cast<double>(summary.n);
    squares += deviation * (x - summary.mean);
  }
  if (summary.n > 1) summary.stddev = std::sqrt(squares / static_cast<double>(summary.n - 1));
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  summary.median = percentile(sorted, 0.5);
  summary.p10 = percentile(sorted, 0.1);
  summary.p90 = percentile(sorted, 0.9);
  summary.p99 = percentile(sorted, 0.99);
  summary.min = sorted.front();
  summary.max = sorted.back();
  return summary;
}

std::optional<double> median(std::span<const double> samples) {
  if (const auto summary = summary_of(samples)) return summary->median;
  return std::nullopt;
}

std::optional<double> geometric_mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double x : values) {
    if (!std::isfinite(x) || x <= 0) {
      fail(ErrorKind::internal, "the geometric mean is not defined for {}", x);
    }
    sum += std::log(x);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace attn
