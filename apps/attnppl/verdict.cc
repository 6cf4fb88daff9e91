// A verdict in words and numbers.
#include "apps/attnppl/verdict.h"

#include <fmt/format.h>

namespace attn {

std::string verdict_text(const std::string& variant, const RuleOutcome& outcome, const AccuracyRule& rule) {
  std::string out = fmt::format("rule for {} (error against f32 at most {} x that of baseline): {}{}{}\n",
                                variant, rule.factor, kVerdictNames.name(outcome.verdict),
                                outcome.reason.empty() ? "" : ": ", outcome.reason);
  for (const RuleFigure& figure : outcome.figures) {
    out += fmt::format("  {:<15} {:.3e}, baseline {:.3e}, limit {:.3e}: {}\n", figure.name, figure.error,
                       figure.baseline_error, figure.limit, figure.holds ? "holds" : "broken");
  }
  return out;
}

Fields verdict_fields(const RuleOutcome& outcome, const AccuracyRule& rule) {
  Fields out{
      {"verdict", kVerdictNames.name(outcome.verdict)}, {"reason", outcome.reason}, {"factor", rule.factor}};
  for (const RuleFigure& figure : outcome.figures) {
    const std::string name(figure.name);
    out[name] = Fields{{"error", figure.error},
                       {"baseline_error", figure.baseline_error},
                       {"limit", figure.limit},
                       {"holds", figure.holds}};
  }
  return out;
}

}  // namespace attn
