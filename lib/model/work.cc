// The formulas of work.h.
#include "lib/model/work.h"

namespace attn {

ForwardWork forward_work(const ModelConfig& config, DType dtype, int batch, double past, int q_len) {
  const double layers = config.layers;
  const double hidden = config.hidden;
  const double ffn_rows = static_cast<double>(config.ffn_hidden) * (config.gated_mlp ? 2 : 1);
  const double heads_width = static_cast<double>(config.q_heads) * config.head_dim;
  const double layer_weights =
      config.qkv_rows() * hidden + hidden * heads_width + ffn_rows * hidden + hidden * config.ffn_hidden;
  const double vocabulary = static_cast<double>(config.vocab) * hidden;
  const double size = static_cast<double>(size_of(dtype));
  const double q = q_len;

  ForwardWork work;
  work.product_flops = 2.0 * batch * (q * layers * layer_weights + vocabulary);
  const double pair_flops = 4.0 * batch * layers * heads_width;
  work.attention_flops_causal = pair_flops * (q * past + q * (q + 1) / 2);
  work.attention_flops_full = pair_flops * q * (past + q);

  double weights = static_cast<double>(config.parameter_count());
  if (config.position == PositionKind::learned) weights -= static_cast<double>(config.max_positions) * hidden;
  if (!config.tied_embeddings) weights -= vocabulary;
  work.weight_bytes = weights * size;
  const double kv_token_bytes = 2.0 * batch * layers * config.kv_heads * config.head_dim * size;
  work.kv_read_bytes = kv_token_bytes * past;
  work.kv_written_bytes = kv_token_bytes * q;
  return work;
}

ForwardWork prefill_work(const ModelConfig& config, DType dtype, int batch, int prompt_tokens) {
  return forward_work(config, dtype, batch, 0, prompt_tokens);
}

ForwardWork mean_decode_work(const ModelConfig& config, DType dtype, int batch, int prompt_tokens,
                             int new_tokens) {
  return forward_work(config, dtype, batch, prompt_tokens + (new_tokens - 2) / 2.0, 1);
}

}  // namespace attn
