// The rule by which a 16-bit mode is as exact as it can be: not further from f32 than the baseline is, within
// a factor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/eval/divergence.h"

namespace attn {

// error(mode against reference) <= max(factor * error(baseline against reference), floor): what rounding to
// 16 bits costs is measured by the baseline instead of guessed, the way flash-attention's authors test
// theirs. The floors are far below any 16-bit error; they only let two f32 computations differ by rounding.
struct AccuracyRule {
  double factor = 2;
  double logit_floor = 1e-4;
  double kl_floor = 1e-10;  // nats
};

// undecided: one of the two was not measured, or the baseline or reference has logits that are not finite.
enum class Verdict : unsigned char { holds, broken, undecided };
inline constexpr auto kVerdictNames = name_table<Verdict>(
    {{Verdict::holds, "holds"}, {Verdict::broken, "broken"}, {Verdict::undecided, "undecided"}});

struct RuleFigure {
  std::string_view name;  // "max_logit_diff", "mean_logit_diff", "mean_kl"
  double error = 0, baseline_error = 0, limit = 0;
  bool holds = false;
};

struct RuleOutcome {
  Verdict verdict = Verdict::undecided;
  std::vector<RuleFigure> figures;  // empty if undecided; the rule holds if all do
  std::string reason;               // of a verdict that is not `holds`, in words
};

// Both against the same reference over the same positions.
RuleOutcome judge_accuracy(const Divergence& mode, const Divergence& baseline, const AccuracyRule& rule = {});

}  // namespace attn
