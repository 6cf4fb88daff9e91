// Where the rows of an attention call begin and how many keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention_params.h"

namespace attn::cpu {

inline const float* row_of(const void* base, const AttentionStrides& stride, std::int64_t batch,
                           std::int64_t token, std::int64_t head) {
  return static_cast<const float*>(base) + batch * stride.batch + token * stride.token + head * stride.head;
}

inline float* row_of(void* base, const AttentionStrides& stride, std::int64_t batch, std::int64_t token,
                     std::int64_t head) {
  return static_cast<float*>(base) + batch * stride.batch + token * stride.token + head * stride.head;
}

// Keys 0 ... visible - 1 are seen by query i.
inline int visible_keys(const AttentionParams& p, int query) {
  return p.causal ? std::clamp(query + 1 + p.kv_len - p.q_len, 0, p.kv_len) : p.kv_len;
}

inline std::int64_t lse_index(const AttentionParams& p, std::int64_t batch, std::int64_t query,
                              std::int64_t head) {
  return (batch * p.q_heads + head) * p.q_len + query;
}

}  // namespace attn::cpu
