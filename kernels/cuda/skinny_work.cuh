// The share of a block of a product of few rows: its part, its groups of tiles, its chunks of columns, its
// ring.
#pragma once

#include <algorithm>

#include "kernels/cuda/skinny_plan.h"

namespace attn::cuda::skinny {

// Columns [begin, end) of chunk number n in the order of work.
struct Chunk {
  int begin, columns;
};
__device__ __forceinline__ Chunk chunk_of(const SkinnyProduct& p, const Layout& layout, int n) {
  const bool early = n < layout.early;
  const int begin = early ? p.late_columns + n * layout.chunk : (n - layout.early) * layout.chunk;
  const int end = early || p.late_columns == 0 ? p.inner : p.late_columns;
  return {begin, min(layout.chunk, end - begin)};
}

// A run of up to kGroup weight tiles of a block's part.
struct Group {
  int first;  // output
  int end;    // one past the last output of this block
  int slots;  // weight tiles: one for each tile of outputs, gated two (gate, up)
};

// Where a ring of stages is: which stage comes next, and the parity of the phase in which it is filled.
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void next(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

// A block works on one part, and there on an even share of the outputs.
__device__ __forceinline__ const SkinnyPart& part_of_block(const SkinnyProduct& p, const Layout& layout) {
  return p.parts[blockIdx.x < layout.first_blocks ? 0 : 1];
}

// The outputs of this block, group by group.
template <typename Body>
__device__ __forceinline__ void for_groups(const SkinnyPart& part, const Layout& layout, const Body& body) {
  const bool second = blockIdx.x >= layout.first_blocks;
  const unsigned block = second ? blockIdx.x - layout.first_blocks : blockIdx.x;
  const unsigned blocks = second ? gridDim.x - layout.first_blocks : layout.first_blocks;
  const auto size = static_cast<unsigned>(part.size);
  const auto end = static_cast<int>(size * (block + 1) / blocks);
  const int tiles = part.gated ? kGroup / 2 : kGroup;
#pragma unroll 1
  for (auto at = static_cast<int>(size * block / blocks); at < end; at += tiles * kTile) {
    const int present = min(tiles, (end - at + kTile - 1) / kTile);
    body(Group{at, end, part.gated ? 2 * present : present});
  }
}

// The first weight row of a slot of a group, and how many there are.
struct TileRows {
  std::int64_t row;
  int first, count;  // outputs
};
__device__ __forceinline__ TileRows tile_rows(const SkinnyPart& part, const Group& group, int slot) {
  const int first = group.first + (part.gated ? slot / 2 : slot) * kTile;
  const std::int64_t below = part.gated && slot % 2 == 1 ? part.size : 0;
  return {below + first, first, min(kTile, group.end - first)};
}

}  // namespace attn::cuda::skinny
