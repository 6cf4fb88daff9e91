// How a product of few rows is cut: the kernel's sizes, and the layout of its shared memory.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/skinny_product.h"

namespace attn::cuda::skinny {

inline constexpr int kConsumers = 8;  // warps
inline constexpr int kConsumerThreads = 32 * kConsumers;
inline constexpr int kThreads = kConsumerThreads + 64;  // and a warp for the weights, and one for the input
inline constexpr int kTile = 8;                         // weight rows
inline constexpr int kGroup = 4;                        // tiles whose sums are in registers
inline constexpr int kStep = 32;                        // columns
inline constexpr int kMostStages = 8;
inline constexpr int kInputSlots = 2;

// Bytes between rows of `columns` elements in shared memory: an odd multiple of 64, so that the 16-byte reads
// of lanes (g, t) and (g + 1, t) lie in different banks.
__host__ __device__ constexpr int row_step(int columns) {
  const int bytes = columns * 2;
  return bytes + (192 - bytes % 128) % 128;
}

struct Layout {
  int chunk;       // most columns of a stage
  int early, all;  // chunks: those of columns [late_columns, inner), which come first, and all
  int stages;
  int window;             // stages under way at a time: more would only queue, before what others ask for too
  int stage_step;         // bytes between rows of a stage
  unsigned first_blocks;  // blocks that work on the first part
  bool contiguous;        // a stage is whole rows that lie together: one copy
  int input, partials, norm;  // where these begin in shared memory, after the stages
  int bytes;
};

// False where the shared memory does not suffice.
bool plan(const SkinnyProduct& product, const SkinnyLimits& limits, Layout& layout);

}  // namespace attn::cuda::skinny
