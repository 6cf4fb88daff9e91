// One pass for the differences, one for the softmaxes.
#include "lib/eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

// ln sum exp, with the largest taken out first.
double log_sum_exp(std::span<const float> row, double largest) {
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - largest);
  return largest + std::log(sum);
}

}  // namespace

RowDivergence compare_rows(std::span<const float> p, std::span<const float> q) {
  if (p.size() != q.size() || p.empty())
    fail(ErrorKind::internal, "rows of {} and {} logits cannot be compared", p.size(), q.size());
  RowDivergence out;
  double diff_sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isfinite(p[i]) || !std::isfinite(q[i])) {
      out.first_nonfinite = static_cast<std::int64_t>(i);
      out.same_argmax = false;
      return out;
    }
    const double diff = std::fabs(static_cast<double>(p[i]) - static_cast<double>(q[i]));
    out.max_diff = std::max(out.max_diff, diff);
    diff_sum += diff;
  }
  out.mean_diff = diff_sum / static_cast<double>(p.size());
  const auto p_top = std::max_element(p.begin(), p.end());
  const auto q_top = std::max_element(q.begin(), q.end());
  out.same_argmax = p_top - p.begin() == q_top - q.begin();
  const double p_norm = log_sum_exp(p, static_cast<double>(*p_top));
  const double q_norm = log_sum_exp(q, static_cast<double>(*q_top));
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - p_norm;
    const double log_q = static_cast<double>(q[i]) - q_norm;
    kl += std::exp(log_p) * (log_p - log_q);
  }
  out.kl = std::max(kl, 0.0);  // rounding may give -1e-17 for equal rows
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
  same_argmax += row.same_argmax ? 1 : 0;
  diff_sum_ += row.mean_diff;
  kl_sum_ += row.kl;
}

}  // namespace attn
