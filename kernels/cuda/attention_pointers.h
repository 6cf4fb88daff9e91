// The pointers of one matrix a (sequence, head), for batched products of cuBLAS.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attn::cuda {

// Five arrays of batch * q_heads pointers one behind the other: q, k, v, scores, out.
inline constexpr int kPointerArrays = 5;

// scores: the matrix of (b, h) begins (b * q_heads + h) * matrix_bytes behind.
cudaError_t attention_pointers(const AttentionParams& params, void* scores, std::int64_t matrix_bytes,
                               void** pointers, cudaStream_t stream);

}  // namespace attn::cuda
