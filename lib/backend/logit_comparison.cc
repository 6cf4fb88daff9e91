// One pass for the differences, one for the sums of the softmaxes, one for what is between them.
#include "lib/backend/logit_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/logit_terms.h"

namespace attn {
namespace {

constexpr int kTop = 5;

// The places of the largest logits, largest first; of equal ones the first in the row.
class Largest {
 public:
  void add(std::int64_t place, float value) {
    if (count_ == kTop && !(value > values_[kTop - 1])) return;
    int at = count_ < kTop ? count_++ : kTop - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      places_[at] = places_[at - 1];
    }
    values_[at] = value;
    places_[at] = place;
  }
  float value() const { return values_[0]; }
  std::int64_t place() const { return places_[0]; }
  double shared_with(const Largest& other) const {
    int shared = 0;
    for (int i = 0; i < count_; ++i) {
      const auto* end = other.places_.data() + other.count_;
      if (std::find(other.places_.data(), end, places_[i]) != end) ++shared;
    }
    return static_cast<double>(shared) / count_;
  }

 private:
  std::array<float, kTop> values_{};
  std::array<std::int64_t, kTop> places_{};
  int count_ = 0;
};

// ln sum exp(row - largest).
double log_sum_exp(const float* row, std::int64_t vocab, float largest) {
  double sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i)
    sum += std::exp(static_cast<double>(row[i]) - static_cast<double>(largest));
  return std::log(sum);
}

}  // namespace

LogitComparison compare_logit_rows(const float* base, const float* other, std::int64_t vocab,
                                   std::int32_t target) {
  LogitComparison out;
  double diff_sum = 0;
  Largest base_top, other_top;
  for (std::int64_t i = 0; i < vocab; ++i) {
    if (!std::isfinite(base[i]) || !std::isfinite(other[i])) {
      LogitComparison nonfinite;
      nonfinite.first_nonfinite = static_cast<std::int32_t>(i);
      return nonfinite;
    }
    const double diff = std::fabs(static_cast<double>(base[i]) - static_cast<double>(other[i]));
    out.max_diff = std::max(out.max_diff, diff);
    diff_sum += diff;
    base_top.add(i, base[i]);
    other_top.add(i, other[i]);
  }
  out.mean_diff = diff_sum / static_cast<double>(vocab);
  out.base_argmax = static_cast<std::int32_t>(base_top.place());
  out.other_argmax = static_cast<std::int32_t>(other_top.place());
  out.top5_shared = base_top.shared_with(other_top);
  const auto base_largest = static_cast<double>(base_top.value());
  const auto other_largest = static_cast<double>(other_top.value());
  const double base_log_sum = log_sum_exp(base, vocab, base_top.value());
  const double other_log_sum = log_sum_exp(other, vocab, other_top.value());
  const double base_norm = base_largest + base_log_sum;
  const double other_norm = other_largest + other_log_sum;
  const double norm_diff = other_largest - base_largest + (other_log_sum - base_log_sum);
  for (std::int64_t i = 0; i < vocab; ++i) {
    const auto p = static_cast<double>(base[i]);
    const DivergenceTerms terms =
        divergence_terms(p - base_norm, static_cast<double>(other[i]) - p - norm_diff);
    out.kl += terms.kl;
    out.js += terms.js;
  }
  out.kl = bounded_kl(out.kl);
  out.js = bounded_js(out.js);
  if (target >= 0) {
    out.target = target;
    out.base_loss = base_norm - static_cast<double>(base[target]);
    out.other_loss = other_norm - static_cast<double>(other[target]);
    out.delta_p = std::exp(-out.other_loss) - std::exp(-out.base_loss);
  }
  return out;
}

}  // namespace attn
