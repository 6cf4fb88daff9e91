// Rotary positions and the write of new keys and values into the cache.
#include "kernels/cpu/rope.h"

#include <cstring>

namespace attn::cpu {

namespace {

// target may be source.
void turn(const float* source, float* target, const float* cos, const float* sin, int rotary_dims,
          int head_dim) {
  const int half = rotary_dims / 2;
  for (int i = 0; i < half; ++i) {
    const float a = source[i];
    const float b = source[i + half];
    target[i] = a * cos[i] - b * sin[i];
    target[i + half] = b * cos[i] + a * sin[i];
  }
  if (target != source && rotary_dims < head_dim) {
    std::memcpy(target + rotary_dims, source + rotary_dims,
                static_cast<std::size_t>(head_dim - rotary_dims) * sizeof(float));
  }
}

void one_token(const RopeAppend& p, std::int64_t b, std::int64_t t) {
  float* token = p.qkv + b * p.qkv_batch + t * p.qkv_token;
  const std::int64_t place = p.position + t;
  const float* cos = p.rotary_dims > 0 ? p.cos + place * p.table_step : nullptr;
  const float* sin = p.rotary_dims > 0 ? p.sin + place * p.table_step : nullptr;
  for (int h = 0; h < p.q_heads && p.rotary_dims > 0; ++h) {
    float* q = token + h * p.qkv_head;
    turn(q, q, cos, sin, p.rotary_dims, p.head_dim);
  }
  for (int h = 0; h < p.kv_heads; ++h) {
    const float* k = token + (p.q_heads + h) * p.qkv_head;
    const float* v = token + (p.q_heads + p.kv_heads + h) * p.qkv_head;
    turn(k, p.k_cache + b * p.k_batch + place * p.k_token + h * p.k_head, cos, sin, p.rotary_dims,
         p.head_dim);
    std::memcpy(p.v_cache + b * p.v_batch + place * p.v_token + h * p.v_head, v,
                static_cast<std::size_t>(p.head_dim) * sizeof(float));
  }
}

}  // namespace

void rope_append(const RopeAppend& p) {
  const std::int64_t tokens = static_cast<std::int64_t>(p.batch) * p.q_len;
#pragma omp parallel for schedule(static) if (tokens > 8)
  for (std::int64_t n = 0; n < tokens; ++n) one_token(p, n / p.q_len, n % p.q_len);
}

}  // namespace attn::cpu
