// One pass for the differences, one for the sums of the softmaxes, one for what is between them.
#include "lib/backend/logit_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace attn {
namespace {

constexpr int kTop = 5;
constexpr double kLn2 = 0.69314718055994530942;

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

// ln sum exp, with the largest taken out first.
double log_sum_exp(const float* row, std::int64_t vocab, double largest) {
  double sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(row[i]) - largest);
  return largest + std::log(sum);
}

struct Terms {
  double kl = 0, js = 0;
};

// Up to this the series of close_terms are exact to 1e-11; rows that are close cost a third with them.
constexpr double kClose = 0.125;

// Taylor series in diff = ln(q / p) of p (e^diff - 1 - diff), and of
// p / 2 (e^diff (diff - m) - m) with m = ln((1 + e^diff) / 2).
Terms close_terms(double p, double diff) {
  const double d = diff;
  const double of_kl =
      1.0 / 2 +
      d * (1.0 / 6 + d * (1.0 / 24 +
                          d * (1.0 / 120 +
                               d * (1.0 / 720 + d * (1.0 / 5040 + d * (1.0 / 40320 + d * (1.0 / 362880)))))));
  const double of_js =
      1.0 / 8 +
      d * (1.0 / 16 +
           d * (1.0 / 64 + d * (1.0 / 384 + d * (1.0 / 2304 + d * (1.0 / 11520 + d * (1.0 / 92160))))));
  return {p * d * d * of_kl, p * d * d * of_js};
}

// What one token of the vocabulary adds. The terms of KL are p ln(p / q) - p + q: their sum is the same,
// since both softmaxes sum to 1, but none is below 0, so nothing cancels where p and q are close.
Terms terms_of(double log_p, double log_q) {
  const double diff = log_q - log_p;
  if (diff == 0) return {};
  if (std::fabs(diff) <= kClose) return close_terms(std::exp(log_p), diff);
  const double larger = std::exp(std::max(log_p, log_q));
  const double shrink = std::expm1(-std::fabs(diff));  // smaller / larger - 1
  const double smaller = larger * (1 + shrink);
  const double log_mean = std::log1p(0.5 * shrink);  // ln((p + q) / 2 / larger)
  Terms out;
  out.js = 0.5 * (-larger * log_mean - smaller * (std::fabs(diff) + log_mean));
  const double p = diff < 0 ? larger : smaller;
  const double q = diff < 0 ? smaller : larger;
  if (std::fabs(diff) <= 1) {
    const double growth = diff < 0 ? shrink : -shrink / (1 + shrink);  // q / p - 1
    out.kl = p * (growth - diff);
  } else {
    out.kl = q - p - p * diff;
  }
  return out;
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
  const double base_norm = log_sum_exp(base, vocab, static_cast<double>(base_top.value()));
  const double other_norm = log_sum_exp(other, vocab, static_cast<double>(other_top.value()));
  for (std::int64_t i = 0; i < vocab; ++i) {
    const Terms terms =
        terms_of(static_cast<double>(base[i]) - base_norm, static_cast<double>(other[i]) - other_norm);
    out.kl += terms.kl;
    out.js += terms.js;
  }
  // A single term may round to a little below 0, and a sum to a little above ln 2.
  out.kl = std::max(out.kl, 0.0);
  out.js = std::clamp(out.js, 0.0, kLn2);
  if (target >= 0) {
    out.target = target;
    out.base_loss = base_norm - static_cast<double>(base[target]);
    out.other_loss = other_norm - static_cast<double>(other[target]);
    out.delta_p = std::exp(-out.other_loss) - std::exp(-out.base_loss);
  }
  return out;
}

}  // namespace attn
