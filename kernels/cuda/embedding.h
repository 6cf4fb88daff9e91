// Token and position embedding.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

struct Embedding {
  const void* tokens;  // [vocab, hidden]
  std::int64_t token_step;
  const void* positions;  // [max_positions, hidden], or null
  std::int64_t position_step;
  const std::int32_t* ids;  // [batch, q_len]
  std::int64_t ids_step;    // between sequences
  std::int64_t batch, q_len, hidden;
  const std::int32_t* past_len;  // on the device
  void* out;                     // [batch, q_len, hidden]
  std::int64_t out_batch, out_token;
  DType dtype;
};

cudaError_t embed(const Embedding& args, cudaStream_t stream);
// *past_len += count.
cudaError_t advance(std::int32_t* past_len, std::int32_t count, cudaStream_t stream);

}  // namespace attn::cuda
