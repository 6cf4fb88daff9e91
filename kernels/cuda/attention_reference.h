// Attention by its definition, sums in double: the truth that every other CUDA kernel is compared to.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attn::cuda {

inline constexpr int kReferenceMaxHeadDim = 4096;  // its sums lie in shared memory

cudaError_t attention_reference(const AttentionParams& params, cudaStream_t stream);

}  // namespace attn::cuda
