// The accuracy rule: which variants it judges, its outcome as lines and as fields of a record.
#pragma once

#include <string>

#include "apps/attnppl/score_case.h"
#include "lib/eval/accuracy_rule.h"
#include "lib/results/value.h"

namespace attn {

// Of attnppl, where the rule is broken.
inline constexpr int kBrokenRuleExitCode = 8;

// Sets the outcome of every variant but baseline's prefill and the reference itself; both errors are against
// the reference's prefill. True: the rule is broken. Without a reference in the run nothing is set.
bool judge_variants(PplCaseResult& result, const AccuracyRule& rule = {});

// "rule for flash: holds", then a line for each figure; each with its line end.
std::string verdict_text(const std::string& variant, const RuleOutcome& outcome,
                         const AccuracyRule& rule = {});
// {verdict, reason, factor} and for each figure {error, baseline_error, limit, holds}.
Fields verdict_fields(const RuleOutcome& outcome, const AccuracyRule& rule = {});

}  // namespace attn
