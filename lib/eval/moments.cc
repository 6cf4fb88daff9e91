// The compensated sum and the running variance.
#include "lib/eval/moments.h"

#include <cmath>

namespace attn {

void RunningMoments::add(double value) {
  ++count_;
  const double next = sum_ + value;
  compensation_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - next) + value : (value - next) + sum_;
  sum_ = next;
  const double delta = value - mean_;
  mean_ += delta / static_cast<double>(count_);
  squares_ += delta * (value - mean_);
}

}  // namespace attn
