// RunningMoments: sum, mean and variance of many numbers, in f64.
#pragma once

#include <cstdint>

namespace attn {

// Mean and sample variance in one pass (Welford 1962), and the sum beside them (Neumaier 1974): all in f64.
class RunningMoments {
 public:
  void add(double value);
  std::int64_t count() const { return count_; }
  double sum() const { return sum_ + compensation_; }
  double mean() const { return mean_; }
  double variance() const { return count_ < 2 ? 0 : squares_ / static_cast<double>(count_ - 1); }

 private:
  std::int64_t count_ = 0;
  double sum_ = 0, compensation_ = 0, mean_ = 0, squares_ = 0;
};

}  // namespace attn
