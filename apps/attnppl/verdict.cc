// A verdict in words and numbers.
#include "apps/attnppl/verdict.h"

#include <algorithm>

#include <fmt/format.h>

namespace attn {
namespace {

// Of a variant from the reference; null where that was not compared.
const Divergence* error_of(const PplCaseResult& result, std::size_t variant) {
  for (const PplPairResult& pair : result.pairs) {
    if (pair.other == variant && result.variants[pair.base].variant.reference)
      return &pair.score.divergence.all();
  }
  return nullptr;
}

bool is_baseline(const PplVariant& variant) {
  return variant.mode == "baseline" && variant.path == ForwardPath::prefill && !variant.reference;
}

RuleOutcome undecided(std::string reason) {
  RuleOutcome outcome;
  outcome.reason = std::move(reason);
  return outcome;
}

}  // namespace

bool judge_variants(PplCaseResult& result, const AccuracyRule& rule) {
  auto& variants = result.variants;
  const bool has_reference =
      std::any_of(variants.begin(), variants.end(), [](const auto& one) { return one.variant.reference; });
  if (!has_reference) return false;
  const auto baseline = std::find_if(variants.begin(), variants.end(),
                                     [](const auto& one) { return is_baseline(one.variant); });
  const Divergence* const baseline_error =
      baseline == variants.end() ? nullptr
                                 : error_of(result, static_cast<std::size_t>(baseline - variants.begin()));
  bool broken = false;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    PplVariantResult& one = variants[i];
    if (one.variant.reference || is_baseline(one.variant) || !one.ran()) continue;
    const Divergence* const error = error_of(result, i);
    if (!result.complete())
      one.rule = undecided("the run did not reach the end of the text");
    else if (baseline == variants.end())
      one.rule = undecided("mode baseline, whose error is the measure, is not among the modes");
    else if (baseline_error == nullptr || error == nullptr)
      one.rule = undecided("baseline or the f32 reference did not run");
    else
      one.rule = judge_accuracy(*error, *baseline_error, rule);
    broken = broken || one.rule->verdict == Verdict::broken;
  }
  return broken;
}

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
