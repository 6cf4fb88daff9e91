// Flash attention without tensor cores: f32, and any head dimension of the 16-bit types.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attn::cuda {

inline constexpr int kSimtMaxHeadDim = 256;

// Tiles of 32 queries and 32 keys in shared memory, online softmax, arithmetic in f32.
cudaError_t attention_flash_simt(const AttentionParams& params, cudaStream_t stream);

}  // namespace attn::cuda
