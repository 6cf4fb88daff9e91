// The accuracy rule's outcome for one variant, as lines and as fields of a record.
#pragma once

#include <string>

#include "lib/eval/accuracy_rule.h"
#include "lib/results/value.h"

namespace attn {

// Of attnppl, where the rule is broken.
inline constexpr int kBrokenRuleExitCode = 8;

// "rule for flash: holds", then a line for each figure; each with its line end.
std::string verdict_text(const std::string& variant, const RuleOutcome& outcome, const AccuracyRule& rule);
// {verdict, reason, factor} and for each figure {error, baseline_error, limit, holds}.
Fields verdict_fields(const RuleOutcome& outcome, const AccuracyRule& rule);

}  // namespace attn
