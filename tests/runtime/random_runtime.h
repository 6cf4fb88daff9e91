// Small random models of every family, for properties of the forward pass.
#pragma once

#include <string>
#include <vector>

#include "lib/core/rng.h"
#include "lib/model/generate.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"
#include "lib/text/prompts.h"
#include "tests/test_device.h"

namespace attn {

inline ModelConfig tiny_config(Family family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.hidden = 24;
  config.q_heads = 4;
  config.kv_heads = family == Family::llama ? 2 : 4;
  config.head_dim = 6;
  config.ffn_hidden = 40;
  config.vocab = 61;
  config.max_positions = 96;
  config.attention_bias = family != Family::llama;
  config.mlp_bias = family != Family::llama;
  config.norm = family == Family::llama ? NormKind::rms_norm : NormKind::layer_norm;
  config.position = family == Family::gpt2 ? PositionKind::learned : PositionKind::rotary;
  config.rope.rotary_dims = family == Family::gpt2 ? 0 : family == Family::gpt_neox ? 2 : 6;
  config.activation = family == Family::llama ? Activation::silu : Activation::gelu_erf;
  config.gated_mlp = family == Family::llama;
  config.parallel_residual = family == Family::gpt_neox;
  config.tied_embeddings = family == Family::gpt2;
  return config;
}

// Weights large enough that attention is far from uniform.
inline Model tiny_model(Platform& platform, Family family) {
  Model model;
  model.config = tiny_config(family);
  model.weights = allocate_weights(*platform.device, model.config, DType::f32);
  std::uint64_t stream = 0;
  for (const Buffer& buffer : model.weights.storage) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.3F * random_normal(11, stream, i);
    platform.device->upload(buffer.data(), values.data(), buffer.bytes());
    ++stream;
  }
  return model;
}

// Logits [batch * count][vocab] of the last call, as floats.
inline std::vector<float> download_logits(Transformer& transformer, const TensorView& hidden) {
  const TensorView rows =
      transformer.logits(hidden.reshaped({hidden.extent(0) * hidden.extent(1), hidden.extent(2)}));
  std::vector<float> values(static_cast<std::size_t>(rows.shape.elements()));
  transformer.platform().device->download(values.data(), rows.data, rows.bytes());
  return values;
}

inline constexpr Family kFamilies[] = {Family::gpt2, Family::gpt_neox, Family::llama};
inline const std::vector<std::string> kModes{"reference", "baseline", "flash"};

}  // namespace attn
