// Records of attnppl.
#include "apps/attnppl/record_case.h"

#include <algorithm>
#include <cmath>

#include "lib/eval/moments.h"
#include "lib/results/environment.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

// More rows than a reader would look at would only make the record heavy.
constexpr std::size_t kMaxDocumentRows = 1000;

void set_outcome(ResultRecord& record, const PplModeResult& result) {
  if (!result.failure.empty()) {
    record.outcome = result.failure_kind == ErrorKind::out_of_memory ? Outcome::out_of_memory
                     : result.failure_kind == ErrorKind::unsupported ? Outcome::unsupported
                                                                     : Outcome::error;
    record.reason = result.failure;
  } else if (result.score.nonfinite) {
    record.outcome = Outcome::nonfinite;
    record.reason = result.score.nonfinite->text();
  } else if (result.score.stopped) {
    record.outcome = Outcome::interrupted;
    record.reason = fmt::format("interrupted: {} tokens were scored", result.score.tokens_scored);
  } else if (!result.score.perplexity) {
    record.outcome = Outcome::error;
    record.reason = "exp of the mean loss is beyond a double";
  }
}

Fields parameter_fields(const PplOptions& options, const Platform& platform, const Model& model,
                        const PplCase& ppl_case, const std::string& mode) {
  const DeviceInfo device = platform.device->info();
  const EvalPlan& plan = ppl_case.plan;
  const ProtocolFacts& facts = facts_of(ppl_case.protocol);
  const bool rows = ppl_case.protocol == Protocol::legacy_rows || ppl_case.dataset.max_lines > 0;
  return {{"mode", mode},
          {"model", model.source.name},
          {"model_source", model.load.random ? "random weights" : model.source.how},
          {"random_weights", model.load.random},
          {"seed", options.model.seed},
          {"device", device.spec},
          {"dtype", kDTypeNames.name(model.weights.dtype)},
          {"threads", device.threads},
          {"dataset", ppl_case.dataset.name},
          {"dataset_sha256", ppl_case.dataset_sha256},
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
          {"token_sha256", plan.token_sha256}};
}

Value::Array document_rows(const PerplexityResult& score) {
  Value::Array rows;
  for (const PassageScore& passage : score.passages) {
    const double log_perplexity = passage.nll_sum / static_cast<double>(passage.tokens_scored);
    rows.push_back(Fields{{"name", passage.name},
                          {"tokens", passage.tokens},
                          {"tokens_scored", passage.tokens_scored},
                          {"bytes_scored", passage.bytes_scored},
                          {"words_scored", passage.words_scored},
                          {"nll_sum", passage.nll_sum},
                          {"log_perplexity", log_perplexity}});
  }
  return rows;
}

void add_scores(ResultRecord& record, const PplCase& ppl_case, const PplModeResult& result) {
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
  metrics["word_perplexity"] = score.word_perplexity;
  metrics["byte_perplexity"] = score.byte_perplexity;
  metrics["bits_per_byte"] = score.bits_per_byte;
  metrics["nll_sum"] = score.nll_sum;
  metrics["tokens_scored"] = score.tokens_scored;
  metrics["words_scored"] = score.words_scored;
  metrics["bytes_scored"] = score.bytes_scored;
  metrics["weight_sum"] = score.weight_sum;
  metrics["tokens"] = ppl_case.plan.tokens;
  metrics["windows"] = ppl_case.plan.windows;
  metrics["samples_seen"] = ppl_case.plan.samples_seen;
  metrics["samples_used"] = ppl_case.plan.samples_used;
  metrics["seconds"] = result.seconds;
  if (result.seconds > 0) metrics["tokens_per_s"] = static_cast<double>(score.tokens_scored) / result.seconds;
  metrics["peak_mem_mb"] = static_cast<double>(result.memory.peak_bytes) / (1 << 20);  // MiB, as system B
  if (is_legacy(ppl_case.protocol)) {
    metrics["token_weighted_log_perplexity"] = score.token_log_perplexity;
    for (const auto& [key, value] : system_b_fields(ppl_case, result).entries) metrics[key] = value;
  }
  record.memory = memory_fields(result.memory);
  if (score.passages.size() <= kMaxDocumentRows) record.extra["documents"] = document_rows(score);
}

}  // namespace

std::optional<ModeDifference> difference(const PplModeResult& mode, const PplModeResult& first) {
  if (!mode.ok() || !first.ok() || mode.losses.size() != first.losses.size() || mode.score.stopped)
    return std::nullopt;
  ModeDifference out;
  out.against = first.mode;
  out.log_ppl_diff = std::fabs(*mode.score.log_perplexity - *first.score.log_perplexity);
  RunningMoments moments;
  for (std::size_t i = 0; i < mode.losses.size(); ++i) {
    const double diff = mode.losses[i] - first.losses[i];
    out.max_loss_diff = std::max(out.max_loss_diff, std::fabs(diff));
    moments.add(diff);
  }
  out.mean_loss_diff = moments.sum() / static_cast<double>(moments.count());
  if (moments.count() >= 2)
    out.mean_loss_diff_error = std::sqrt(moments.variance() / static_cast<double>(moments.count()));
  return out;
}

bool is_legacy(Protocol protocol) {
  return protocol == Protocol::legacy_rows || protocol == Protocol::legacy_window;
}

Fields system_b_fields(const PplCase& ppl_case, const PplModeResult& result) {
  if (ppl_case.protocol == Protocol::legacy_window) {
    return {{"ppl", result.score.perplexity},
            {"avg_loss", result.score.log_perplexity},
            {"num_tokens", static_cast<std::int64_t>(result.score.weight_sum)},
            {"seq_len", ppl_case.plan.tokens}};
  }
  return {{"ppl", result.score.perplexity},
          {"avg_loss", result.score.log_perplexity},
          {"num_samples", ppl_case.plan.samples_used}};
}

ResultRecord make_record(const PplOptions& options, const Platform& platform, const Model& model,
                         const PplCase& ppl_case, const PplModeResult& result,
                         const std::optional<ModeDifference>& difference, const PplRunFacts& facts) {
  ResultRecord record;
  record.app = "attnppl";
  record.time = utc_now();
  record.environment = facts.environment;
  record.parameters = parameter_fields(options, platform, model, ppl_case, result.mode);
  set_outcome(record, result);
  if (!result.kernel.empty()) record.metrics["prefill_kernel"] = result.kernel;
  if (!facts.notes.empty()) record.extra["notes"] = facts.notes;
  if (!result.failure.empty()) return record;
  add_scores(record, ppl_case, result);
  if (difference) {
    record.metrics["compared_with"] = difference->against;
    record.metrics["log_ppl_diff"] = difference->log_ppl_diff;
    record.metrics["max_loss_diff"] = difference->max_loss_diff;
    record.metrics["mean_loss_diff"] = difference->mean_loss_diff;
    record.metrics["mean_loss_diff_error"] = difference->mean_loss_diff_error;
  }
  return record;
}

}  // namespace attn
