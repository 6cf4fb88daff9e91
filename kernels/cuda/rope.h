// Rotary positions and the write of new keys and values into the cache.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

struct RopeAppend {
  void* qkv;  // [batch, q_len, q_heads + 2 kv_heads, head_dim]: queries | keys | values
  std::int64_t qkv_batch, qkv_token, qkv_head;  // strides, in elements
  int batch, q_len, q_heads, kv_heads, head_dim;
  int rotary_dims;   // even; 0: nothing turns
  const float* cos;  // [positions, rotary_dims / 2]
  const float* sin;
  std::int64_t table_step;
  const std::int32_t* past_len;  // on the device: position of the first token, and its place in the cache
  void* k_cache;                 // [batch, capacity, kv_heads, head_dim]
  void* v_cache;
  std::int64_t k_batch, k_token, k_head, v_batch, v_token, v_head;
  DType dtype;
};

// Queries turn in place (in f32, rounded once); turned keys and the values go to places *past_len ... of the
// caches. The keys in qkv stay. Pairs are (i, i + rotary_dims / 2).
cudaError_t rope_append(const RopeAppend& args, cudaStream_t stream);

}  // namespace attn::cuda
