// Sizes of grids and blocks, and the choice of an instance by element type.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

// A grid's x extent for `count` pieces of work; kernels step through what lies beyond.
inline unsigned grid_for(std::int64_t count) {
  constexpr std::int64_t kMost = 1 << 30;
  return static_cast<unsigned>(std::min(std::max<std::int64_t>(count, 1), kMost));
}

// Threads for a row of `packs` pieces: whole warps, at most `most`.
inline unsigned threads_for(std::int64_t packs, unsigned most) {
  const auto wanted = static_cast<std::int64_t>((packs + 31) / 32 * 32);
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 32, most));
}

}  // namespace attn::cuda
