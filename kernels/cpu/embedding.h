// Token and position embedding.
#pragma once

#include <cstdint>

namespace attn::cpu {

struct Embedding {
  const float* tokens;  // [vocab, hidden]
  std::int64_t token_step;
  const float* positions;  // [max_positions, hidden], or null
  std::int64_t position_step;
  const std::int32_t* ids;  // [batch, q_len]
  std::int64_t ids_step;    // between sequences
  std::int64_t batch, q_len, hidden;
  std::int64_t first_position;
  float* out;  // [batch, q_len, hidden]
  std::int64_t out_batch, out_token;
};

void embed(const Embedding& args);

}  // namespace attn::cpu
