// random_model: weights drawn from normal-like distributions of scales at which a forward pass is healthy.
#include <chrono>
#include <cmath>

#include "lib/core/rng.h"
#include "lib/model/model.h"
#include "lib/model/presets.h"
#include "lib/model/weight_writer.h"

namespace attn {

namespace {

struct Draw {
  std::uint64_t seed;
  std::uint64_t stream = 0;  // one for each tensor, in the order of add()
  std::vector<WeightWrite> writes;

  // Element i of a tensor, row-major, is mean + deviation * normal(seed, stream, i).
  void add(const TensorView& target, double deviation, double mean = 0) {
    if (target.empty()) return;
    const std::uint64_t base =
        mix_bits(mix_bits(seed) ^ stream++);  // as random_bits() of lib/core/rng.h begins
    const RandomFill numbers{base, static_cast<float>(deviation), static_cast<float>(mean)};
    writes.push_back(
        {target,
         [numbers](const TensorView& rows, std::int64_t first_row) { fill_rows(rows, first_row, numbers); },
         numbers});
  }
  void add(const NormWeights& norm) {
    add(norm.weight, 0.05, 1);
    add(norm.bias, 0.02);
  }
  void add(const LinearWeights& linear, double deviation) {
    add(linear.weight, deviation);
    add(linear.bias, 0.02);
  }
};

// A normed input has elements of size 1, so a deviation of 1 / sqrt(inputs) keeps them at size 1:
// - queries and keys of size 1 give scores of deviation 1 after the division by sqrt(head_dim): neither
// uniform nor
//   one-hot attention. A model that does not divide gets queries and keys that are smaller by the fourth
//   root.
// - the two matrices that write to the residual stream are smaller by sqrt(2 layers) (GPT-2's rule), so that
// the
//   stream stays at size 1 through any depth.
// - the head gives logits of deviation 2; tied, the embedding has the head's scale.
std::vector<WeightWrite> draw_weights(const ModelConfig& config, const ModelWeights& weights,
                                      std::uint64_t seed) {
  Draw draw{seed, 0, {}};
  const double wide = 1 / std::sqrt(config.hidden);
  const double residual = 1 / std::sqrt(2.0 * config.layers);
  const double query = config.scale_attention ? wide : wide / std::pow(config.head_dim, 0.25);
  const std::int64_t qk_rows = std::int64_t{config.q_heads + config.kv_heads} * config.head_dim;
  const std::int64_t v_rows = std::int64_t{config.kv_heads} * config.head_dim;

  draw.add(weights.embedding.tokens, config.tied_embeddings ? 2 * wide : 1);
  draw.add(weights.embedding.positions, config.tied_embeddings ? wide : 0.5);
  draw.add(weights.final_norm);
  if (!config.tied_embeddings) draw.add(weights.head, 2 * wide);
  for (const LayerWeights& layer : weights.layers) {
    draw.add(layer.attention_norm);
    draw.add(layer.qkv.weight.slice(0, 0, qk_rows), query);
    draw.add(layer.qkv.weight.slice(0, qk_rows, v_rows), wide);
    draw.add(layer.qkv.bias, 0.02);
    draw.add(layer.attention_out, residual / std::sqrt(double{1} * config.q_heads * config.head_dim));
    draw.add(layer.mlp_norm);
    draw.add(layer.mlp_in, wide);
    draw.add(layer.mlp_out, residual / std::sqrt(config.ffn_hidden));
  }
  return draw.writes;
}

}  // namespace

ModelConfig source_config(const ModelSource& source) {
  if (source.dir && std::filesystem::exists(*source.dir / "config.json")) return read_config(*source.dir);
  if (const auto config = find_preset(source.name)) return *config;
  fail(ErrorKind::bad_input,
       "{}: no config.json there, and no preset has this name; fetch it with tools/fetch_model",
       source.dir ? source.dir->string() : source.name);
}

Model random_model(Device& device, const ModelSource& source, DType dtype, std::uint64_t seed) {
  Model model;
  model.source = source;
  model.config = source_config(source);
  const auto start = std::chrono::steady_clock::now();
  model.weights = allocate_weights(device, model.config, dtype);
  write_weights(device, model.weights, draw_weights(model.config, model.weights, seed));
  model.load.random = true;
  model.load.seed = seed;
  model.load.bytes_written = model.weights.bytes;
  model.load.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

}  // namespace attn
