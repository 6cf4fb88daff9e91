// Records of attnlogits.
#include "apps/attnlogits/record_case.h"

#include "lib/results/environment.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

ResultRecord make_record(const LogitsOptions& options, const Platform& platform, const Model& model,
                         const LogitsPrompt& prompt, const LogitsVariant& base, const LogitsVariant& other,
                         const Divergence& divergence, bool interrupted, const LogitsRunFacts& facts) {
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
                       {"prompt_tokens", prompt.ids.size()},
                       {"token_sha256", token_stream_sha256(prompt.ids)},
                       {"max_length", options.max_length}};
  Fields& metrics = record.metrics;
  metrics["positions"] = divergence.rows;
  if (divergence.rows > 0) {
    metrics["max_diff"] = divergence.max_diff;
    metrics["mean_diff"] = divergence.mean_diff();
    metrics["max_kl"] = divergence.max_kl;
    metrics["mean_kl"] = divergence.mean_kl();
    metrics["argmax_agreement"] = divergence.argmax_agreement();
  }
  metrics["nonfinite_positions"] = divergence.nonfinite_rows;
  metrics["first_nonfinite_position"] = divergence.first_nonfinite_position;
  const std::vector<std::string> found = complaints(divergence, options.thresholds);
  metrics["within_thresholds"] = found.empty();
  metrics["attention_kernel"] = other.kernel;
  metrics["against_kernel"] = base.kernel;
  if (divergence.first_nonfinite_position) {
    record.outcome = Outcome::nonfinite;
    record.reason = found.front();
  } else if (interrupted) {
    record.outcome = Outcome::interrupted;
    record.reason =
        fmt::format("interrupted: {} of {} positions were compared", divergence.rows, prompt.ids.size());
  }
  if (!found.empty()) record.extra["complaints"] = found;
  if (!facts.notes.empty()) record.extra["notes"] = facts.notes;
  return record;
}

}  // namespace attn
