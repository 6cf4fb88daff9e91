// Three figures, each with its limit.
#include "lib/eval/accuracy_rule.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {

RuleOutcome judge_accuracy(const Divergence& mode, const Divergence& baseline, const AccuracyRule& rule) {
  RuleOutcome out;
  if (baseline.nonfinite_rows > 0) {
    out.reason = fmt::format(
        "the baseline or the reference has logits that are not finite, first at position {}: there is no "
        "error to compare with",
        *baseline.first_nonfinite_position);
    return out;
  }
  if (mode.nonfinite_rows > 0) {
    out.verdict = Verdict::broken;
    out.reason = fmt::format("logits are not finite where baseline's are, first at position {}",
                             *mode.first_nonfinite_position);
    return out;
  }
  if (mode.rows == 0 || mode.rows != baseline.rows) {
    out.reason = fmt::format("{} positions were compared in the mode and {} in the baseline", mode.rows,
                             baseline.rows);
    return out;
  }
  const auto judge = [&](std::string_view name, double error, double baseline_error, double floor) {
    const double limit = std::max(rule.factor * baseline_error, floor);
    out.figures.push_back({name, error, baseline_error, limit, error <= limit});
    if (error <= limit) return;
    out.reason += fmt::format("{}{} is {:.3e}, more than {:.3e} (baseline {:.3e})",
                              out.reason.empty() ? "" : "; ", name, error, limit, baseline_error);
  };
  judge("max_logit_diff", mode.max_diff, baseline.max_diff, rule.logit_floor);
  judge("mean_logit_diff", mode.mean_diff(), baseline.mean_diff(), rule.logit_floor);
  judge("mean_kl", mode.mean_kl(), baseline.mean_kl(), rule.kl_floor);
  out.verdict = out.reason.empty() ? Verdict::holds : Verdict::broken;
  return out;
}

}  // namespace attn
