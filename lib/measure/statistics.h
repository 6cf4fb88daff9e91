// Summary statistics of repeated measurements.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace attn {

// All values in the unit of the samples.
struct Summary {
  std::size_t n = 0;
  double median = 0;
  double mean = 0;
  std::optional<double> stddev;  // of the sample (divisor n - 1): none for n = 1
  double p10 = 0, p90 = 0, p99 = 0;
  double min = 0, max = 0;
};

// Nothing for no samples: what was not measured is missing, never 0. Throws Error{internal} for a non-finite
// sample.
std::optional<Summary> summary_of(std::span<const double> samples);

// The value below which `fraction` of the samples lie, by linear interpolation between the neighbours in
// sorted order: position fraction * (n - 1). `sorted` is ascending and not empty; fraction is in [0, 1].
double percentile(std::span<const double> sorted, double fraction);

// Nothing for no samples.
std::optional<double> median(std::span<const double> samples);

// exp(mean(log x)): the mean of ratios. Nothing for no samples; throws Error{internal} for a value that is
// not positive and finite.
std::optional<double> geometric_mean(std::span<const double> values);

}  // namespace attn
