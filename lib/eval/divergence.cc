// Rows that were compared, and their sums over positions.
#include "lib/eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
RowDivergence row_divergence(const LogitComparison& compared) {
  RowDivergence out;
  out.max_diff = compared.max_diff;
  out.mean_diff = compared.mean_diff;
  out.kl = compared.kl;
  out.js = compared.js;
  out.same_argmax = compared.first_nonfinite < 0 && compared.base_argmax == compared.other_argmax;
  out.top5_shared = compared.top5_shared;
  if (compared.target >= 0)
    out.target = TargetDivergence{compared.base_loss, compared.other_loss, compared.delta_p};
  if (compared.first_nonfinite >= 0) out.first_nonfinite = compared.first_nonfinite;
  return out;
}

RowDivergence compare_rows(std::span<const float> p, std::span<const float> q,
                           std::optional<TokenId> target) {
  if (p.size() != q.size() || p.empty())
    fail(ErrorKind::internal, "rows of {} and {} logits cannot be compared", p.size(), q.size());
  if (target && (*target < 0 || static_cast<std::size_t>(*target) >= p.size()))
    fail(ErrorKind::internal, "target {} is not among {} logits", *target, p.size());
  return row_divergence(compare_logit_rows(p.data(), q.data(), static_cast<std::int64_t>(p.size()),
                                           target ? *target : TokenId{-1}));
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
