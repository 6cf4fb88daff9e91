// ForwardWork: the operations and bytes that a forward pass cannot do without, counted from the config alone.
#pragma once

#include "lib/model/config.h"

namespace attn {

// With L layers, d hidden, h query and g key heads of size c, V vocabulary, B sequences of q tokens each that
// follow p cached ones, and M = weights of a layer's matrices:
//   product_flops              2 B q L M, and 2 B V d: the head computes one row a sequence
//   attention_flops_causal     4 B L h c (q p + q (q + 1) / 2): two products over the pairs that are seen
//   attention_flops_full       4 B L h c q (p + q): over all pairs, as mode baseline executes them
//   weight_bytes               all matrices, biases and norms once. An untied embedding is left out (its rows
//                              are gathered); a tied one is read by the head
//   kv_read_bytes              2 B L g c p elements: cached keys and values
//   kv_written_bytes           2 B L g c q elements
// Activations, logits, gathered rows, norms' and softmax's operations are not counted: all of it is a lower
// bound.
struct ForwardWork {
  double product_flops = 0;
  double attention_flops_causal = 0, attention_flops_full = 0;
  double weight_bytes = 0;
  double kv_read_bytes = 0, kv_written_bytes = 0;

  double flops() const { return product_flops + attention_flops_causal; }
  double bytes() const { return weight_bytes + kv_read_bytes + kv_written_bytes; }
};

// `past` may be a mean: all counts are linear in it.
ForwardWork forward_work(const ModelConfig& config, DType dtype, int batch, double past, int q_len);

ForwardWork prefill_work(const ModelConfig& config, DType dtype, int batch, int prompt_tokens);
// The mean of the new_tokens - 1 decode steps after a prefill (new_tokens >= 2): step i follows prompt + i -
// 1 tokens.
ForwardWork mean_decode_work(const ModelConfig& config, DType dtype, int batch, int prompt_tokens,
                             int new_tokens);

}  // namespace attn
