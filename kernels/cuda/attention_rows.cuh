// Where the rows of an attention call begin and how many keys a query sees.
#pragma once

#include <cstdint>

#include "kernels/attention_params.h"

namespace attn::cuda {

template <typename T>
__device__ __forceinline__ const T* row_of(const void* base, const AttentionStrides& stride,
                                           std::int64_t batch, std::int64_t token, std::int64_t head) {
  return static_cast<const T*>(base) + batch * stride.batch + token * stride.token + head * stride.head;
}
template <typename T>
__device__ __forceinline__ T* row_of(void* base, const AttentionStrides& stride, std::int64_t batch,
                                     std::int64_t token, std::int64_t head) {
  return static_cast<T*>(base) + batch * stride.batch + token * stride.token + head * stride.head;
}

// The parameters with the number of keys that there are now.
__device__ __forceinline__ AttentionParams with_length(AttentionParams p) {
  if (p.past_len != nullptr) p.kv_len = *p.past_len + p.q_len;
  return p;
}

// Keys 0 ... visible - 1 are seen by query i, which may lie beyond q_len.
__device__ __forceinline__ int visible_keys(const AttentionParams& p, int query) {
  return p.causal ? max(min(query + 1 + p.kv_len - p.q_len, p.kv_len), 0) : p.kv_len;
}

__device__ __forceinline__ std::int64_t lse_index(const AttentionParams& p, std::int64_t batch,
                                                  std::int64_t query, std::int64_t head) {
  return (batch * p.q_heads + head) * p.q_len + query;
}

}  // namespace attn::cuda
