// Records of attnlogits.
#include "apps/attnlogits/record_case.h"

#include "lib/results/environment.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

void add_figures(Fields& metrics, const LogitsPair& pair) {
  const Divergence& divergence = pair.divergence;
  metrics["positions"] = divergence.rows;
  if (divergence.rows > 0) {
    metrics["max_diff"] = divergence.max_diff;
    metrics["mean_diff"] = divergence.mean_diff();
    metrics["max_kl"] = divergence.max_kl;
    metrics["mean_kl"] = divergence.mean_kl();
    metrics["max_js"] = divergence.max_js;
    metrics["mean_js"] = divergence.mean_js();
    metrics["argmax_agreement"] = divergence.argmax_agreement();
    metrics["top5_agreement"] = divergence.top5_agreement();
    metrics["first_top1_change"] = pair.first_top1_change;
  }
  metrics["targets"] = divergence.targets;
  if (const auto ratio = divergence.perplexity.result()) {
    metrics["max_loss_diff"] = divergence.max_loss_diff;
    metrics["rms_delta_p"] = divergence.rms_delta_p();
    metrics["log_perplexity"] = ratio->other_log_perplexity;
    metrics["against_log_perplexity"] = ratio->base_log_perplexity;
    metrics["log_ppl_diff"] = ratio->log_ratio;
  }
  metrics["nonfinite_positions"] = divergence.nonfinite_rows;
  metrics["first_nonfinite_position"] = divergence.first_nonfinite_position;
}

// Prompts of different lengths may be computed by different kernels: all together have none.
Value kernel_of(const LogitsVariant& variant) {
  return variant.kernel.empty() ? Value() : Value(variant.kernel);
}

}  // namespace

ResultRecord make_record(const LogitsOptions& options, const Platform& platform, const Model& model,
                         const LogitsPrompt& prompt, std::size_t prompts, const LogitsVariant& base,
                         const LogitsVariant& other, const LogitsPair& pair, bool interrupted,
                         const LogitsRunFacts& facts) {
  const Divergence& divergence = pair.divergence;
  const DeviceInfo device = platform.device->info();
  ResultRecord record;
  record.app = "attnlogits";
  record.time = utc_now();
  record.environment = facts.environment;
  record.parameters = {{"mode", other.mode},
                       {"path", kForwardPathNames.name(other.path)},
                       {"against", base.mode},
                       {"against_path", kForwardPathNames.name(base.path)},
                       {"model", model.source.name},
                       {"model_source", model.load.random ? "random weights" : model.source.how},
                       {"random_weights", model.load.random},
                       {"seed", options.model.seed},
                       {"device", device.spec},
                       {"dtype", kDTypeNames.name(model.weights.dtype)},
                       {"threads", device.threads},
                       {"prompt", prompt.label},
                       {"prompt_file", prompt.file.empty() ? Value() : Value(prompt.file)},
                       {"prompts", prompts},
                       {"prompt_tokens", prompt.ids.size()},
                       {"token_sha256", token_stream_sha256(prompt.ids)},
                       {"max_length", options.max_length}};
  Fields& metrics = record.metrics;
  add_figures(metrics, pair);
  const std::vector<std::string> found = complaints(divergence, options.thresholds);
  metrics["within_thresholds"] = found.empty();
  metrics["attention_kernel"] = kernel_of(other);
  metrics["against_kernel"] = kernel_of(base);
  if (divergence.first_nonfinite_position) {
    record.outcome = Outcome::nonfinite;
    record.reason = found.front();
  } else if (interrupted) {
    record.outcome = Outcome::interrupted;
    record.reason =
        fmt::format("interrupted: {} of {} positions were compared", divergence.rows, prompt.ids.size());
  }
  if (!found.empty()) record.extra["complaints"] = found;
  std::vector<std::string> notes = facts.notes;
  notes.insert(notes.end(), prompt.notes.begin(), prompt.notes.end());
  if (!notes.empty()) record.extra["notes"] = notes;
  return record;
}

}  // namespace attn
