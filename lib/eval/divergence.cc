// One pass for the differences, one for the sums of the softmaxes, one for what is between them.
#include "lib/eval/divergence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

constexpr std::size_t kTop = 5;
constexpr double kLn2 = 0.69314718055994530942;

// The places of the largest logits, largest first; of equal ones the first in the row.
class Largest {
 public:
  void add(std::size_t place, float value) {
    if (count_ == kTop && !(value > values_[kTop - 1])) return;
    std::size_t at = count_ < kTop ? count_++ : kTop - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      places_[at] = places_[at - 1];
    }
    values_[at] = value;
    places_[at] = place;
  }
  float value() const { return values_[0]; }
  std::size_t place() const { return places_[0]; }
  double shared_with(const Largest& other) const {
    std::size_t shared = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto end = other.places_.begin() + static_cast<std::ptrdiff_t>(other.count_);
      if (std::find(other.places_.begin(), end, places_[i]) != end) ++shared;
    }
    return static_cast<double>(shared) / static_cast<double>(count_);
  }

 private:
  std::array<float, kTop> values_{};
  std::array<std::size_t, kTop> places_{};
  std::size_t count_ = 0;
};

// ln sum exp, with the largest taken out first.
double log_sum_exp(std::span<const float> row, double largest) {
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - largest);
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

RowDivergence compare_rows(std::span<const float> p, std::span<const float> q,
                           std::optional<TokenId> target) {
  if (p.size() != q.size() || p.empty())
    fail(ErrorKind::internal, "rows of {} and {} logits cannot be compared", p.size(), q.size());
  if (target && (*target < 0 || static_cast<std::size_t>(*target) >= p.size()))
    fail(ErrorKind::internal, "target {} is not among {} logits", *target, p.size());
  RowDivergence out;
  double diff_sum = 0;
  Largest p_top, q_top;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isfinite(p[i]) || !std::isfinite(q[i])) {
      RowDivergence nonfinite;
      nonfinite.same_argmax = false;
      nonfinite.top5_shared = 0;
      nonfinite.first_nonfinite = static_cast<std::int64_t>(i);
      return nonfinite;
    }
    const double diff = std::fabs(static_cast<double>(p[i]) - static_cast<double>(q[i]));
    out.max_diff = std::max(out.max_diff, diff);
    diff_sum += diff;
    p_top.add(i, p[i]);
    q_top.add(i, q[i]);
  }
  out.mean_diff = diff_sum / static_cast<double>(p.size());
  out.same_argmax = p_top.place() == q_top.place();
  out.top5_shared = p_top.shared_with(q_top);
  const double p_norm = log_sum_exp(p, static_cast<double>(p_top.value()));
  const double q_norm = log_sum_exp(q, static_cast<double>(q_top.value()));
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Terms terms = terms_of(static_cast<double>(p[i]) - p_norm, static_cast<double>(q[i]) - q_norm);
    out.kl += terms.kl;
    out.js += terms.js;
  }
  // A single term may round to a little below 0, and a sum to a little above ln 2.
  out.kl = std::max(out.kl, 0.0);
  out.js = std::clamp(out.js, 0.0, kLn2);
  if (target) {
    const auto at = static_cast<std::size_t>(*target);
    TargetDivergence& of = out.target.emplace();
    of.base_loss = p_norm - static_cast<double>(p[at]);
    of.other_loss = q_norm - static_cast<double>(q[at]);
    of.delta_p = std::exp(-of.other_loss) - std::exp(-of.base_loss);
  }
  return out;
}

void Divergence::add(std::int64_t position, const RowDivergence& row) {
  if (row.first_nonfinite) {
    ++nonfinite_rows;
    if (!first_nonfinite_position) first_nonfinite_position = position;
    return;
  }
  ++rows;
  max_diff = std::max(max_diff, row.max_diff);
  max_kl = std::max(max_kl, row.kl);
  max_js = std::max(max_js, row.js);
  same_argmax += row.same_argmax ? 1 : 0;
  diff_sum_ += row.mean_diff;
  top5_sum_ += row.top5_shared;
  kl_sum_.add(row.kl);
  js_sum_.add(row.js);
  kl.add(row.kl);
  if (!row.target) return;
  ++targets;
  max_loss_diff = std::max(max_loss_diff, std::fabs(row.target->other_loss - row.target->base_loss));
  delta_p.add(row.target->delta_p);
  delta_p_sum_.add(row.target->delta_p);
  delta_p_squares_.add(row.target->delta_p * row.target->delta_p);
  perplexity.add(row.target->base_loss, row.target->other_loss);
}

double Divergence::mean_delta_p() const {
  return targets == 0 ? 0 : delta_p_sum_.sum() / static_cast<double>(targets);
}

double Divergence::rms_delta_p() const {
  return targets == 0 ? 0 : std::sqrt(delta_p_squares_.sum() / static_cast<double>(targets));
}

}  // namespace attn
