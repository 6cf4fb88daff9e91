// Token and position embedding.
#include "kernels/cpu/embedding.h"

#include <cstring>

namespace attn::cpu {

void embed(const Embedding& p) {
#pragma omp parallel for schedule(static) if (p.batch * p.q_len * p.hidden > 65536)
  for (std::int64_t n = 0; n < p.batch * p.q_len; ++n) {
    const std::int64_t b = n / p.q_len;
    const std::int64_t t = n % p.q_len;
    const float* token = p.tokens + static_cast<std::int64_t>(p.ids[b * p.ids_step + t]) * p.token_step;
    float* out = p.out + b * p.out_batch + t * p.out_token;
    if (p.positions == nullptr) {
      std::memcpy(out, token, static_cast<std::size_t>(p.hidden) * sizeof(float));
      continue;
    }
    const float* position = p.positions + (p.first_position + t) * p.position_step;
    for (std::int64_t i = 0; i < p.hidden; ++i) out[i] = token[i] + position[i];
  }
}

}  // namespace attn::cpu
