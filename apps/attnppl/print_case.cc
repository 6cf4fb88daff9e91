// Lines and tables.
#include "apps/attnppl/print_case.h"

#include <cmath>
#include <cstdio>

#include <fmt/ranges.h>

#include "apps/attnppl/divergence_fields.h"
#include "apps/attnppl/verdict.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

constexpr double kLargeLogDifference = 0.5;  // system B's threshold for a warning
constexpr std::int64_t kPrintedDocuments = 16;

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_header(bool ceilings) {
  fmt::print("{:<16} {:>14} {:>10} {:>12} {:>12} {:>10} {:>10} {:>9} {:>10} {:>9}{}\n", "mode", "perplexity",
             "std error", "ln ppl", "per word", "per byte", "bits/byte", "scored", "tokens/s", "TFLOP/s",
             ceilings ? "  of limit" : "");
}

// Of the time that the operations take at the product's ceiling.
std::string share_of_limit(const PplCaseResult& all, const PplVariantResult& result,
                           const Ceilings& ceilings) {
  const auto ms = limit_of({all.flops, 0}, ceilings).ms();
  if (!ms || result.seconds <= 0 || result.variant.reference) return fmt::format("{:>10}", "-");
  return fmt::format("{:>8.1f} %", 100 * *ms / (result.seconds * 1e3));
}

void print_score(const PplCaseResult& all, std::size_t variant, const std::optional<Ceilings>& ceilings) {
  const PplVariantResult& result = all.variants[variant];
  const std::string name = result.variant.text();
  if (!result.ran()) {
    fmt::print("{:<16} {}: {}\n", name, attn::name(result.failure_kind), result.failure);
    return;
  }
  if (all.nonfinite && all.nonfinite->variant == variant) {
    fmt::print("{:<16} nonfinite: {}\n", name, all.nonfinite->text());
    return;
  }
  const PerplexityResult& score = result.score;
  fmt::print("{:<16} {:>14} {:>10} {:>12} {:>12} {:>10} {:>10} {:>9} {:>10.0f} {:>9.3g}{}{}\n", name,
             shown(score.perplexity, 6), shown(score.bootstrap_error, 4), shown(score.log_perplexity, 8),
             shown(score.word_perplexity, 4), shown(score.byte_perplexity, 6), shown(score.bits_per_byte, 6),
             score.tokens_scored,
             result.seconds > 0 ? static_cast<double>(score.tokens_scored) / result.seconds : 0.0,
             result.seconds > 0 ? all.flops / (result.seconds * 1e12) : 0.0,
             ceilings ? share_of_limit(all, result, *ceilings) : "",
             all.complete() ? ""
             : all.stopped  ? "  (interrupted)"
                            : "  (ended early)");
  if (score.estimator != Estimator::tokens && score.token_log_perplexity)
    fmt::print("{:<16} {:>14.6f}   the same tokens, each with the same weight\n", "",
               std::exp(*score.token_log_perplexity));
}

void print_documents(const PplCaseResult& all, std::size_t variant) {
  const PerplexityResult& score = all.variants[variant].score;
  if (score.estimator == Estimator::passages || score.passage_count < 2) return;
  if (score.macro_log_perplexity) {
    fmt::print("{:<16} {:>14.6f}   mean of the {} texts, each with the same weight\n", "",
               std::exp(*score.macro_log_perplexity), score.passage_count);
  }
  if (score.passage_count > kPrintedDocuments) return;
  for (const PassageScore& passage : score.passages) {
    fmt::print("{:<16} {:>14.6f}   {}{} ({} tokens scored)\n", "",
               std::exp(passage.nll_sum / static_cast<double>(passage.tokens_scored)), passage.name,
               passage.title.empty() ? "" : ", " + passage.title, passage.tokens_scored);
  }
}

void print_difference(const PplCaseResult& all, std::size_t variant) {
  const auto diff = difference(all, variant);
  if (!diff) return;
  const std::string name = all.variants[variant].variant.text();
  const std::string against = all.variants[diff->against].variant.text();
  fmt::print("|ln ppl {} - ln ppl {}| = {:.3e}; largest difference of a token's loss {:.3e}\n", name, against,
             diff->log_ppl_diff, diff->max_loss_diff);
  if (diff->log_ppl_diff > kLargeLogDifference)
    fmt::print(stderr,
               "attnppl: warning: the perplexities of {} and {} differ by more than a factor of e^{}\n", name,
               against, kLargeLogDifference);
}

const char* unit_of(TextForm form) {
  switch (form) {
    case TextForm::lines: return "lines";
    case TextForm::pages: return "pages";
    default: return "documents";
  }
}

}  // namespace

void print_model(const Model& model, const Platform& platform) {
  const DeviceInfo device = platform.device->info();
  fmt::print("model {} ({}), {}, {}: {}, {} threads\n", model.source.name,
             model.load.random ? fmt::format("random weights, seed {}", model.load.seed) : model.source.how,
             kDTypeNames.name(model.weights.dtype), device.spec, device.description, device.threads);
}

void print_start(const PplCase& ppl_case, const ProtocolSettings& settings) {
  const PlanOptions& options = ppl_case.plan_options;
  if (ppl_case.protocol == Protocol::legacy_rows) {
    fmt::print("protocol legacy-rows: {}, each line alone, at most {} tokens, mean of the lines' means\n",
               ppl_case.dataset.name, options.context);
    return;
  }
  const ProtocolFacts& facts = facts_of(ppl_case.protocol);
  fmt::print("protocol {}: {}, windows of {} tokens{}{}, BOS {}, text {}, detokenizer {}, average over {}\n",
             kProtocolNames.name(ppl_case.protocol), ppl_case.dataset.name, options.context,
             facts.strided ? fmt::format(", stride {}", options.stride) : "",
             ppl_case.protocol == Protocol::full ? ", every token scored once" : "",
             kBosRuleNames.name(settings.bos), kTextFormNames.name(settings.text), facts.detokenizer,
             kEstimatorNames.name(settings.estimator));
}

void print_variants(const PplCaseResult& result, const std::optional<Ceilings>& ceilings) {
  print_header(ceilings.has_value());
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    print_score(result, i, ceilings);
    if (result.variants[i].ran()) print_documents(result, i);
  }
  for (std::size_t i = 0; i < result.variants.size(); ++i) print_difference(result, i);
}

void print_divergences(const PplCaseResult& result) {
  for (const PplPairResult& pair : result.pairs) {
    if (pair.score.divergence.all().rows == 0) continue;  // a table of zeros would look like agreement
    fmt::print("{}", divergence_table(result.variants[pair.other].variant, result.variants[pair.base].variant,
                                      pair.score.divergence));
  }
}

void print_health(const PplCaseResult& result) {
  for (const PplVariantResult& variant : result.variants) {
    if (variant.health) fmt::print("{}", health_table(*variant.health));
  }
  if (!result.nonfinite_health) return;
  fmt::print("the window of the value that is not finite, fed again:\n{}",
             health_table(*result.nonfinite_health));
  if (!result.nonfinite_health->first_nonfinite)
    fmt::print(
        "all that goes in and comes out of attention is finite: the fault lies after the last layer's\n");
}

void print_verdicts(const PplCaseResult& result) {
  for (const PplVariantResult& variant : result.variants) {
    if (variant.rule) fmt::print("{}", verdict_text(variant.variant.text(), *variant.rule));
  }
}

void print_text(const PplCase& ppl_case, const TextFacts& text) {
  const ReadTotals& totals = text.totals;
  fmt::print("data {}: {} of {} {} used, {} bytes, {} tokens, SHA-256 of the ids {}\n", ppl_case.dataset.name,
             totals.samples_used, totals.samples_seen, unit_of(text.settings.text), totals.text_bytes,
             totals.tokens, totals.token_sha256.value_or("unknown, as it was not read to the end"));
}

void print_end(const PplCase& ppl_case, const PplCaseResult& result) {
  print_text(ppl_case, result.text);
  const ReadTotals& totals = result.text.totals;
  fmt::print("{} windows, {} tokens scored; peak memory {:.2f} MiB{}, {} windows at a time, {:.2f} s\n",
             totals.windows, totals.tokens_scored, static_cast<double>(result.memory.peak_bytes) / (1 << 20),
             result.variants.size() > 1 ? " of all modes together" : "", result.batch, result.seconds);
}

void print_system_b(const PplOptions& options, const Model& model, const PplCase& ppl_case,
                    const PplCaseResult& result) {
  const bool both = options.modes == std::vector<std::string>{"baseline", "flash"};
  Fields object{{"model_name", model.source.name},
                {"dataset", ppl_case.dataset.name},
                {"mode", both ? "both" : fmt::format("{}", fmt::join(options.modes, ","))}};
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const PplVariantResult& variant = result.variants[i];
    if (variant.ok() && variant.variant.path == ForwardPath::prefill && !variant.variant.reference)
      object[variant.variant.mode] = system_b_fields(ppl_case, result, i);
  }
  if (options.modes.size() > 1) {
    if (const auto diff = difference(result, 1)) object["log_ppl_diff"] = diff->log_ppl_diff;
  }
  fmt::print("{}\n", to_json(object));
}

}  // namespace attn
