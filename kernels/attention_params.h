// AttentionParams: the plain struct that every attention kernel takes.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace attn {

// In elements. The head dimension is dense.
struct AttentionStrides {
  std::int64_t batch, token, head;
};

// out[b, i, h, :] = sum_j softmax_j(scale * q[b, i, h, :] . k[b, j, g, :]) * v[b, j, g, :] with
// g = h / (q_heads / kv_heads), over the keys j that query i sees: all, or with `causal` those with
// j <= i + kv_len - q_len (aligned at the bottom right). A query that sees no key gives 0, and lse -infinity.
struct AttentionParams {
  const void* q;  // [batch, q_len, q_heads, head_dim]
  const void* k;  // [batch, kv_len, kv_heads, head_dim]
  const void* v;  // as k
  void* out;      // as q
  float* lse;     // [batch, q_heads, q_len] dense: ln of the softmax denominator, maximum put back; or null
  AttentionStrides q_stride, k_stride, v_stride, out_stride;
  // Where given, on the device: the keys are the first *past_len + q_len, and kv_len is the most there may
  // be.
  const std::int32_t* past_len;
  int batch, q_len, kv_len, q_heads, kv_heads, head_dim;
  float scale;
  bool causal;
  DType dtype;
};

}  // namespace attn
