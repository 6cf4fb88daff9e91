// The memory layout of the weights.
#include "lib/model/weights.h"

namespace attn {

namespace {

// Hands out aligned places of one buffer. Without memory it only counts, so that one function serves both
// passes.
class Carver {
 public:
  Carver(void* memory, DType dtype) : memory_(static_cast<std::byte*>(memory)), dtype_(dtype) {}

  TensorView take(const Shape& shape) {
    constexpr std::size_t kAlignment = 256;
    used_ = (used_ + kAlignment - 1) / kAlignment * kAlignment;
    std::byte* place = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += static_cast<std::size_t>(shape.elements()) * size_of(dtype_);
    return {place, dtype_, shape};
  }
  std::size_t used() const { return used_; }
  bool counting() const { return memory_ == nullptr; }

 private:
  std::byte* memory_;
  DType dtype_;
  std::size_t used_ = 0;
};

NormWeights carve_norm(Carver& carver, const ModelConfig& config) {
  NormWeights norm{config.norm, config.norm_eps, carver.take({config.hidden}), {}};
  if (config.norm == NormKind::layer_norm) norm.bias = carver.take({config.hidden});
  return norm;
}

// Two matrices over the same input, one below the other. A bias of one alone stands alone.
void carve_below(Carver& carver, std::int64_t columns, LinearWeights& top, std::int64_t top_rows,
                 bool top_bias, LinearWeights& bottom, std::int64_t bottom_rows, bool bottom_bias) {
  const TensorView both = carver.take({top_rows + bottom_rows, columns});
  const TensorView bias = carver.take({(top_bias ? top_rows : 0) + (bottom_bias ? bottom_rows : 0)});
  if (carver.counting()) return;
  top.weight = both.slice(0, 0, top_rows);
  bottom.weight = both.slice(0, top_rows, bottom_rows);
  if (top_bias) top.bias = bias.slice(0, 0, top_rows);
  if (bottom_bias) bottom.bias = bias.slice(0, top_bias ? top_rows : 0, bottom_rows);
}

// Two matrices whose products are added, side by side.
void carve_beside(Carver& carver, std::int64_t rows, LinearWeights& left, std::int64_t left_columns,
                  LinearWeights& right, std::int64_t right_columns) {
  const TensorView both = carver.take({rows, left_columns + right_columns});
  if (carver.counting()) return;
  left.weight = both.slice(1, 0, left_columns);
  right.weight = both.slice(1, left_columns, right_columns);
}

LayerWeights carve_layer(Carver& carver, const ModelConfig& config) {
  const std::int64_t attention_width = std::int64_t{config.q_heads} * config.head_dim;
  const std::int64_t ffn_rows = std::int64_t{config.ffn_hidden} * (config.gated_mlp ? 2 : 1);
  LayerWeights layer;
  layer.attention_norm = carve_norm(carver, config);
  layer.mlp_norm = carve_norm(carver, config);
  if (config.parallel_residual) {
    carve_below(carver, config.hidden, layer.qkv, config.qkv_rows(), config.attention_bias, layer.mlp_in,
                ffn_rows, config.mlp_bias);
    carve_beside(carver, config.hidden, layer.attention_out, attention_width, layer.mlp_out,
                 config.ffn_hidden);
  } else {
    layer.qkv.weight = carver.take({config.qkv_rows(), config.hidden});
    layer.attention_out.weight = carver.take({config.hidden, attention_width});
    layer.mlp_in.weight = carver.take({ffn_rows, config.hidden});
    layer.mlp_out.weight = carver.take({config.hidden, config.ffn_hidden});
    if (config.attention_bias) layer.qkv.bias = carver.take({config.qkv_rows()});
    if (config.mlp_bias) layer.mlp_in.bias = carver.take({ffn_rows});
  }
  if (config.attention_bias) layer.attention_out.bias = carver.take({config.hidden});
  if (config.mlp_bias) layer.mlp_out.bias = carver.take({config.hidden});
  return layer;
}

struct OuterWeights {  // all that is not a layer
  EmbeddingWeights embedding;
  NormWeights final_norm;
  LinearWeights head;
};

OuterWeights carve_outer(Carver& carver, const ModelConfig& config) {
  OuterWeights outer;
  outer.embedding.tokens = carver.take({config.vocab, config.hidden});
  if (config.position == PositionKind::learned)
    outer.embedding.positions = carver.take({config.max_positions, config.hidden});
  outer.final_norm = carve_norm(carver, config);
  outer.head.weight =
      config.tied_embeddings ? outer.embedding.tokens : carver.take({config.vocab, config.hidden});
  return outer;
}

}  // namespace

ModelWeights allocate_weights(Device& device, const ModelConfig& config, DType dtype) {
  ModelWeights weights;
  weights.dtype = dtype;
  const auto place = [&](const auto& carve) {
    Carver counting(nullptr, dtype);
    carve(counting, config);
    weights.storage.push_back(device.allocate(counting.used(), MemoryUse::weights));
    weights.bytes += counting.used();
    Carver carver(weights.storage.back().data(), dtype);
    return carve(carver, config);
  };
  const OuterWeights outer = place(carve_outer);
  weights.embedding = outer.embedding;
  weights.final_norm = outer.final_norm;
  weights.head = outer.head;
  for (int layer = 0; layer < config.layers; ++layer) weights.layers.push_back(place(carve_layer));
  return weights;
}

std::size_t weight_bytes(const ModelConfig& config, DType dtype) {
  Carver outer(nullptr, dtype);
  carve_outer(outer, config);
  Carver layer(nullptr, dtype);
  carve_layer(layer, config);
  return outer.used() + static_cast<std::size_t>(config.layers) * layer.used();
}

}  // namespace attn
