// The table of mode flash's kernels: what exists, what each can do, how it is launched.
#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attn::cuda {

struct FlashRow {
  const char* name;
  const char* what;
  int head_dim;  // 0: any up to kSimtMaxHeadDim
  DType dtype;
  int min_sm;        // compute capability, 80 for 8.0
  int shared_bytes;  // shared memory of a block that the device must grant; 0: the launch asks for what it
                     // needs
  int max_q_len;     // 0: any
  bool needs_alignment;  // rows begin at multiples of 16 bytes, and the scale is above 0
  // Bytes of scratch on a GPU of sm_count multiprocessors, never fewer for more keys; null: none.
  std::size_t (*workspace)(const AttentionParams& params, int sm_count);
  cudaError_t (*launch)(const AttentionParams& params, void* workspace, int sm_count, cudaStream_t stream);
};

// In order of preference: the first row that fits a problem runs it.
std::span<const FlashRow* const> flash_rows();

// Instances, each in a file of its own so that they compile side by side.
extern const FlashRow kFlashD64F16, kFlashD64BF16, kFlashD80F16, kFlashD80BF16, kFlashD96F16, kFlashD96BF16,
    kFlashD128F16, kFlashD128BF16, kFlashD256F16, kFlashD256BF16, kFlashD256SmallF16, kFlashD256SmallBF16;
extern const FlashRow kDecodeD64F16, kDecodeD64BF16, kDecodeD80F16, kDecodeD80BF16, kDecodeD96F16,
    kDecodeD96BF16, kDecodeD128F16, kDecodeD128BF16, kDecodeD256F16, kDecodeD256BF16;

}  // namespace attn::cuda
