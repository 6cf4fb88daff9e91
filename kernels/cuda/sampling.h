// The next token of each row of logits: the largest, or drawn.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace attn::cuda {

struct PickToken {
  const float* logits;  // [rows, vocab]
  std::int64_t logits_step;
  std::int64_t rows, vocab;
  float temperature;  // 0: the lowest id among the largest; NaN is never largest
  int top_k;          // 0: no limit
  float top_p;        // 1: no limit
  std::uint64_t seed;
  const std::int32_t*
      past_len;        // on the device; the random number of a row is a function of (seed, row, *past_len)
  std::int32_t* next;  // [rows]
  std::int64_t next_step;
};

// Drawn: softmax(logits / temperature) over the top_k largest (ties: lower ids first), then over the shortest
// run of largest whose share reaches top_p. NaN counts as -infinity; where the largest is infinite it is
// picked.
cudaError_t pick_token(const PickToken& args, cudaStream_t stream);

}  // namespace attn::cuda
