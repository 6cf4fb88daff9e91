// Weights of a model on a device, in the layouts that the forward pass reads.
#pragma once

#include <vector>

#include "lib/backend/device.h"
#include "lib/backend/ops.h"
#include "lib/model/config.h"

namespace attn {

struct LayerWeights {
  NormWeights attention_norm;
  LinearWeights qkv;  // [(q_heads + 2 kv_heads) * head_dim, hidden], rows ordered queries | keys | values
  LinearWeights attention_out;  // [hidden, q_heads * head_dim]
  NormWeights mlp_norm;
  LinearWeights mlp_in;   // [ffn_hidden, hidden]; gated: [2 * ffn_hidden, hidden], gate rows first
  LinearWeights mlp_out;  // [hidden, ffn_hidden]
};

// Views point into `storage`. With a parallel residual, qkv and mlp_in are neighbours in one matrix
// [qkv_rows + ffn, hidden], and attention_out and mlp_out are the columns of one matrix
// [hidden, q_heads * head_dim + ffn_hidden], so that a device can run each pair as one product.
struct ModelWeights {
  EmbeddingWeights embedding;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  LinearWeights head;  // [vocab, hidden]; the embedding itself where tied
  DType dtype = DType::f32;
  std::size_t bytes = 0;  // of `storage`: the elements, and less than 256 a tensor for alignment
  std::vector<Buffer> storage;
};

// Memory for all tensors of `config`, uninitialised; every view set. The one place that knows the layout.
ModelWeights allocate_weights(Device& device, const ModelConfig& config, DType dtype);
// What allocate_weights would take, alignment included.
std::size_t weight_bytes(const ModelConfig& config, DType dtype);

}  // namespace attn
