// The report of --inspect.
#include "lib/model/inspect.h"

#include <map>

#include "lib/model/weight_plan.h"

namespace attn {

namespace {

constexpr auto kNormNames =
    name_table<NormKind>({{NormKind::layer_norm, "LayerNorm"}, {NormKind::rms_norm, "RMSNorm"}});
constexpr auto kActivationNames = name_table<Activation>({{Activation::none, "none"},
                                                          {Activation::gelu_erf, "gelu (erf)"},
                                                          {Activation::gelu_tanh, "gelu (tanh)"},
                                                          {Activation::relu, "relu"},
                                                          {Activation::silu, "silu"}});

TensorSummary summary_of(const StoredTensor& stored) {
  return {stored.name, stored.dtype, stored.shape_text(), {}};
}

std::string describe_positions(const ModelConfig& config) {
  std::string text = fmt::format("positions: {}, ", config.max_positions);
  if (config.position == PositionKind::learned) return text + "learned";
  const RopeConfig& rope = config.rope;
  text += fmt::format("rotary, theta {}, {} of {} dimensions", rope.theta, rope.rotary_dims, config.head_dim);
  if (rope.scaling == RopeScaling::linear) text += fmt::format(", linear scaling by {}", rope.factor);
  if (rope.scaling == RopeScaling::llama3) {
    text += fmt::format(", llama3 scaling by {} (low {}, high {}, original positions {})", rope.factor,
                        rope.low_freq_factor, rope.high_freq_factor, rope.original_max_positions);
  }
  return text;
}

void append_tensors(std::string& text, std::string_view title, const std::vector<TensorSummary>& tensors) {
  if (tensors.empty()) return;
  text += fmt::format("{} ({}):\n", title, tensors.size());
  for (const TensorSummary& tensor : tensors) {
    text += fmt::format("  {} {} {}{}\n", tensor.name, tensor.dtype.empty() ? "-" : tensor.dtype,
                        tensor.shape, tensor.note.empty() ? "" : ": " + tensor.note);
  }
}

// How many tensors and bytes of each dtype the model reads.
std::string dtype_mix(const WeightPlan& plan) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> mix;
  for (const PlannedTensor& planned : plan.used) {
    auto& [count, bytes] = mix[planned.stored->dtype];
    ++count;
    bytes += planned.stored->bytes.size();
  }
  std::string text;
  for (const auto& [dtype, sizes] : mix) {
    text += fmt::format("{}{} in {} tensors ({} bytes)", text.empty() ? "" : ", ", dtype, sizes.first,
                        sizes.second);
  }
  return text.empty() ? "none" : text;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string text_of(const InspectReport& report, const WeightPlan& plan) {
  std::string text =
      fmt::format("model: {} ({}, {})\n", report.source.name, report.source.dir->string(), report.source.how);
  text += describe(report.config);
  text += fmt::format("files: {}\ndtypes: {}\n", joined(report.files), dtype_mix(plan));
  append_tensors(text, "used", report.used);
  append_tensors(text, "missing", report.missing);
  append_tensors(text, "wrong shape", report.mismatched);
  append_tensors(text, "unused", report.unused);
  append_tensors(text, "buffers, not needed", report.buffers);
  for (const std::string& alias : report.aliased) text += "aliased: " + alias + "\n";
  text += report.problem.empty() ? "loads: yes\n" : "loads: no: " + report.problem + "\n";
  return text;
}

}  // namespace

std::string describe(const ModelConfig& config) {
  std::string text =
      fmt::format("family: {}, {} parameters\n", kFamilyNames.name(config.family), config.parameter_count());
  text += fmt::format("size: {} layers, hidden {}, MLP {}{}, vocabulary {}\n", config.layers, config.hidden,
                      config.ffn_hidden, config.gated_mlp ? " gated" : "", config.vocab);
  text += fmt::format("attention: {} heads, {} key and value heads, head dimension {}{}{}\n", config.q_heads,
                      config.kv_heads, config.head_dim, config.scale_attention ? "" : ", scores not scaled",
                      config.scale_attention_by_layer ? ", scaled by 1 / (layer + 1)" : "");
  text += describe_positions(config) + "\n";
  text +=
      fmt::format("block: {} (eps {}), {}, {} residual, bias of attention {}, of MLP {}, embeddings {}\n",
                  kNormNames.name(config.norm), config.norm_eps, kActivationNames.name(config.activation),
                  config.parallel_residual ? "parallel" : "sequential", config.attention_bias ? "yes" : "no",
                  config.mlp_bias ? "yes" : "no", config.tied_embeddings ? "tied" : "not tied");
  return text;
}

InspectReport inspect_checkpoint(const ModelSource& source) {
  if (!source.dir) {
    fail(ErrorKind::bad_input,
         "{} has no files on this machine to inspect: get them with tools/fetch_model {}", source.name,
         source.name);
  }
  InspectReport report;
  report.source = source;
  report.config = read_config(*source.dir);
  const Checkpoint checkpoint(*source.dir);
  report.files = checkpoint.files();

  ModelWeights without_memory;
  without_memory.layers.resize(static_cast<std::size_t>(report.config.layers));
  const WeightPlan plan = plan_weights(report.config, checkpoint, without_memory);
  for (const PlannedTensor& planned : plan.used) report.used.push_back(summary_of(*planned.stored));
  for (const MissingTensor& tensor : plan.missing)
    report.missing.push_back({tensor.name, {}, tensor.shape.text(), {}});
  for (const MismatchedTensor& tensor : plan.mismatched) {
    report.mismatched.push_back(summary_of(*tensor.stored));
    report.mismatched.back().note = "the config asks for " + tensor.expected.text();
  }
  for (const StoredTensor* stored : plan.unused) report.unused.push_back(summary_of(*stored));
  for (const StoredTensor* stored : plan.buffers) report.buffers.push_back(summary_of(*stored));
  report.aliased = plan.aliased;
  try {
    check_plan(plan, report.config, checkpoint);
  } catch (const Error& error) {
    report.problem = error.what();
  }
  report.text = text_of(report, plan);
  return report;
}

}  // namespace attn
