// Records of attnppl.
#include "apps/attnppl/record_case.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "apps/attnppl/divergence_fields.h"
#include "apps/attnppl/verdict.h"
#include "apps/roofline_fields.h"
#include "lib/results/environment.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

void set_outcome(ResultRecord& record, const PplCaseResult& all, std::size_t variant) {
  const PplVariantResult& result = all.variants[variant];
  if (!result.ran()) {
    record.outcome = result.failure_kind == ErrorKind::out_of_memory ? Outcome::out_of_memory
                     : result.failure_kind == ErrorKind::unsupported ? Outcome::unsupported
                                                                     : Outcome::error;
    record.reason = result.failure;
  } else if (all.nonfinite && all.nonfinite->variant == variant) {
    record.outcome = Outcome::nonfinite;
    record.reason = all.nonfinite->text();
  } else if (all.nonfinite) {
    record.outcome = Outcome::interrupted;
    record.reason =
        fmt::format("the run ended at a logit of {} that is not finite: {} tokens were scored",
                    all.variants[all.nonfinite->variant].variant.text(), result.score.tokens_scored);
  } else if (all.source_error) {
    record.outcome = Outcome::error;
    record.reason =
        fmt::format("{} tokens were scored, then: {}", result.score.tokens_scored, all.source_error->what());
  } else if (all.stopped) {
    record.outcome = Outcome::interrupted;
    record.reason = fmt::format("interrupted: {} tokens were scored", result.score.tokens_scored);
  } else if (!result.score.perplexity) {
    record.outcome = Outcome::error;
    record.reason = "exp of the mean loss is beyond a double";
  }
}

Fields parameter_fields(const PplOptions& options, const Platform& platform, const Model& model,
                        const PplCase& ppl_case, const TextFacts& text, const PplVariant& variant) {
  const DeviceInfo device = platform.device->info();
  const ProtocolSettings& plan = text.settings;
  const ProtocolFacts& facts = facts_of(ppl_case.protocol);
  const bool rows = ppl_case.protocol == Protocol::legacy_rows || ppl_case.dataset.max_lines > 0;
  return {{"mode", variant.mode},
          {"path", kForwardPathNames.name(variant.path)},
          {"model", model.source.name},
          {"model_source", model.load.random ? "random weights" : model.source.how},
          {"random_weights", model.load.random},
          {"seed", options.model.seed},
          {"device", device.spec},
          {"dtype", kDTypeNames.name(variant.reference ? DType::f32 : model.weights.dtype)},
          {"f32_reference", variant.reference},
          {"threads", device.threads},
          {"dataset", ppl_case.dataset.name},
          {"documents",
           options.documents.empty() ? Value() : Value(fmt::format("{}", fmt::join(options.documents, ",")))},
          {"line_ends", options.line_ends},
          {"dataset_sha256", text.dataset_sha256},
          {"protocol", kProtocolNames.name(ppl_case.protocol)},
          {"context", ppl_case.plan_options.context},
          {"stride", facts.strided ? Value(ppl_case.plan_options.stride) : Value()},
          {"bos", kBosRuleNames.name(plan.bos)},
          {"bos_id", plan.bos_id ? Value(static_cast<std::int64_t>(*plan.bos_id)) : Value()},
          {"text", kTextFormNames.name(plan.text)},
          {"detokenizer", facts.detokenizer},
          {"average", kEstimatorNames.name(plan.estimator)},
          {"softmax_dtype", "f64"},
          {"sample_unit", rows                           ? "line"
                          : plan.text == TextForm::pages ? "page"
                                                         : "document"},
          {"max_samples", ppl_case.max_samples},
          {"max_chars", ppl_case.dataset.max_chars},
          {"max_tokens", ppl_case.plan_options.max_tokens},
          {"token_sha256", text.totals.token_sha256}};
}

Value::Array document_rows(const PerplexityResult& score) {
  Value::Array rows;
  for (const PassageScore& passage : score.passages) {
    const double log_perplexity = passage.nll_sum / static_cast<double>(passage.tokens_scored);
    Fields row{{"name", passage.name}};
    if (!passage.title.empty()) row["title"] = passage.title;
    for (auto& field : Fields{{"tokens", passage.tokens},
                              {"tokens_scored", passage.tokens_scored},
                              {"bytes_scored", passage.bytes_scored},
                              {"words_scored", passage.words_scored},
                              {"nll_sum", passage.nll_sum},
                              {"log_perplexity", log_perplexity}}
                           .entries)
      row.entries.push_back(std::move(field));
    rows.emplace_back(std::move(row));
  }
  return rows;
}

void add_scores(ResultRecord& record, const PplCase& ppl_case, const PplCaseResult& all,
                std::size_t variant) {
  const PplVariantResult& result = all.variants[variant];
  const ReadTotals& totals = all.text.totals;
  const PerplexityResult& score = result.score;
  Fields& metrics = record.metrics;
  metrics["perplexity"] = score.perplexity;
  metrics["log_perplexity"] = score.log_perplexity;
  metrics["standard_error"] = score.standard_error;
  metrics["bootstrap_error"] = score.bootstrap_error;
  if (score.bootstrap) {
    metrics["bootstrap_block"] = score.bootstrap->block;
    metrics["bootstrap_resamples"] = score.bootstrap->resamples;
    metrics["bootstrap_seed"] = static_cast<std::int64_t>(score.bootstrap->seed);
  }
  metrics["token_log_perplexity"] = score.token_log_perplexity;
  metrics["macro_log_perplexity"] = score.macro_log_perplexity;
  metrics["word_perplexity"] = score.word_perplexity;
  metrics["byte_perplexity"] = score.byte_perplexity;
  metrics["bits_per_byte"] = score.bits_per_byte;
  metrics["nll_sum"] = score.nll_sum;
  metrics["tokens_scored"] = score.tokens_scored;
  metrics["words_scored"] = score.words_scored;
  metrics["words_counted_by"] = all.published_words ? "PG-19" : "attnppl";
  metrics["bytes_scored"] = score.bytes_scored;
  metrics["weight_sum"] = score.weight_sum;
  metrics["tokens"] = totals.tokens;
  metrics["windows"] = totals.windows;
  metrics["samples_seen"] = totals.samples_seen;
  metrics["samples_used"] = totals.samples_used;
  metrics["seconds"] = result.seconds;
  if (result.seconds > 0) metrics["tokens_per_s"] = static_cast<double>(score.tokens_scored) / result.seconds;
  // Of all variants of the run together where there are several: no variant's own.
  const bool alone = all.variants.size() == 1;
  metrics[alone ? "peak_mem_mb" : "run_peak_mem_mb"] =
      static_cast<double>(all.memory.peak_bytes) / (1 << 20);  // MiB, as system B
  metrics["batch_windows"] = all.batch;
  metrics["waits_for_text"] = all.text.waits;
  if (is_legacy(ppl_case.protocol)) {
    metrics["token_weighted_log_perplexity"] = score.token_log_perplexity;
    for (const auto& [key, value] : system_b_fields(ppl_case, all, variant).entries) metrics[key] = value;
  }
  record.memory = memory_fields(all.memory);
  Value::Array sharers;
  for (const PplVariantResult& sharer : all.variants) {
    if (sharer.ran()) sharers.emplace_back(sharer.variant.text());
  }
  record.memory["of_run_of"] = std::move(sharers);
  record.extra["documents"] = document_rows(score);
  record.extra["document_count"] = score.passage_count;
}

Fields nonfinite_fields(const PplCaseResult& all) {
  const NonFiniteScore& found = *all.nonfinite;
  Fields fields{{"document", found.passage},
                {"window", found.window},
                {"token", found.position},
                {"row", found.row},
                {"logit", found.place}};
  if (all.nonfinite_health) fields["health"] = health_fields(*all.nonfinite_health);
  return fields;
}

void add_divergences(ResultRecord& record, const PplCaseResult& all, std::size_t variant) {
  Value::Array divergences;
  for (const PplPairResult& pair : all.pairs) {
    if (pair.other == variant)
      divergences.emplace_back(divergence_fields(all.variants[pair.base].variant, pair.score.divergence));
  }
  if (!divergences.empty()) record.extra["divergence"] = std::move(divergences);
}

}  // namespace

std::optional<ModeDifference> difference(const PplCaseResult& result, std::size_t variant) {
  const auto pair = std::find_if(result.pairs.begin(), result.pairs.end(), [&](const PplPairResult& one) {
    return one.other == variant && !result.variants[one.base].variant.reference;
  });
  if (pair == result.pairs.end() || !result.complete()) return std::nullopt;
  const PplVariantResult& base = result.variants[pair->base];
  const PplVariantResult& other = result.variants[variant];
  if (!base.ok() || !other.ok()) return std::nullopt;
  return ModeDifference{pair->base, std::fabs(*other.score.log_perplexity - *base.score.log_perplexity),
                        pair->score.losses.max_diff, pair->score.losses.mean(),
                        pair->score.losses.standard_error()};
}

Fields system_b_fields(const PplCase& ppl_case, const PplCaseResult& result, std::size_t variant) {
  const PerplexityResult& score = result.variants[variant].score;
  if (ppl_case.protocol == Protocol::legacy_window) {
    return {{"ppl", score.perplexity},
            {"avg_loss", score.log_perplexity},
            {"num_tokens", static_cast<std::int64_t>(score.weight_sum)},
            {"seq_len", result.text.totals.tokens}};
  }
  return {{"ppl", score.perplexity},
          {"avg_loss", score.log_perplexity},
          {"num_samples", result.text.totals.samples_used}};
}

ResultRecord make_record(const PplOptions& options, const Platform& platform, const Model& model,
                         const PplCase& ppl_case, const PplCaseResult& all, std::size_t variant,
                         const PplRunFacts& facts) {
  const PplVariantResult& result = all.variants[variant];
  ResultRecord record;
  record.app = "attnppl";
  record.time = utc_now();
  record.environment = facts.environment;
  record.parameters = parameter_fields(options, platform, model, ppl_case, all.text, result.variant);
  set_outcome(record, all, variant);
  if (!result.kernel.empty()) {
    const bool decode = result.variant.path == ForwardPath::decode;
    record.metrics[decode ? "decode_kernel" : "prefill_kernel"] = result.kernel;
  }
  if (!facts.notes.empty()) record.extra["notes"] = facts.notes;
  if (result.health) record.extra["health"] = health_fields(*result.health);
  if (all.nonfinite && all.nonfinite->variant == variant) record.extra["nonfinite"] = nonfinite_fields(all);
  if (!result.ran()) return record;
  add_scores(record, ppl_case, all, variant);
  add_divergences(record, all, variant);
  if (result.seconds > 0 && all.flops > 0) {
    record.metrics["tflops"] = all.flops / (result.seconds * 1e12);
    // The ceiling is of the run's own dtype, which the f32 reference does not have.
    if (facts.ceilings && !result.variant.reference) {
      add_limit(record, "run", limit_of({all.flops, 0}, *facts.ceilings), result.seconds * 1e3);
      record.extra["ceilings"] = ceiling_fields(*facts.ceilings);
    }
  }
  if (result.rule) record.extra["accuracy_rule"] = verdict_fields(*result.rule);
  if (const auto diff = difference(all, variant)) {
    record.metrics["compared_with"] = all.variants[diff->against].variant.text();
    record.metrics["log_ppl_diff"] = diff->log_ppl_diff;
    record.metrics["max_loss_diff"] = diff->max_loss_diff;
    record.metrics["mean_loss_diff"] = diff->mean_loss_diff;
    record.metrics["mean_loss_diff_error"] = diff->mean_loss_diff_error;
  }
  return record;
}

}  // namespace attn
