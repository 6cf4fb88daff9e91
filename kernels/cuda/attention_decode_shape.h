// How a decode step is cut: tiles of the kernel, rows that share a key head, and the number of splits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_flash.h"

namespace attn::cuda {

inline constexpr int kDecodeMaxQueries = 16;
inline constexpr int kDecodeRows = 8;  // of queries: columns of an mma tile
inline constexpr int kSlab = 16;       // keys a warp takes at a time
inline constexpr int kMostSplits = 32;

template <typename Type, int kDimValue, int kWarpsValue, int kStagesValue>
struct DecodeTile {
  using T = Type;
  static constexpr int kDim = kDimValue;
  static constexpr int kWarps = kWarpsValue;
  static constexpr int kStages = kStagesValue;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = kDim > 128 ? 2 : 512 / kThreads;  // that registers must allow
  static constexpr int kStep = kDim + 8;  // elements between rows in shared memory
  static constexpr int kChunks = kDim / 8;
  static constexpr int kSlabElements = kSlab * kStep;
  static constexpr int kLeastKeys = kWarps * kSlab;  // of a split
  // Shared memory: [warp][stage][k, v][key][dim], then a row for each query, the new key and the new value.
  static constexpr int kStageBytes = kWarps * kStages * 2 * kSlabElements * 2;
  static constexpr int shared_bytes(int rows) { return kStageBytes + (rows + 2) * kStep * 2; }
  static_assert(kDim % 16 == 0 && kStages >= 2);
  // The warps' sums and (maximum, sum) pairs take the stages' place at the end.
  static_assert(kWarps * kDecodeRows * (kDim + 2) * 4 <= kStageBytes);
};

// Rows are ordered [batch, kv_head, query, head of the group].
struct DecodeShape {
  int group, rows_per_head, row_blocks, splits;
  std::int64_t heads;   // batch * kv_heads
  float group_inverse;  // 1 / group
};

// As few blocks as fill the multiprocessors: one each, or, where that leaves too many without (or a block
// would run a whole head), some that take turns.
inline int decode_splits(std::int64_t blocks, int sm_count) {
  if (blocks > kDecodeTickets) return 1;
  std::int64_t splits = 1;
  for (const int each : {1, 3, 6, 12}) {
    const std::int64_t room = std::int64_t{each} * sm_count;
    splits = std::clamp<std::int64_t>(room / blocks, 1, kMostSplits);
    if (splits > 1 && 8 * splits * blocks >= 7 * room) break;
  }
  return static_cast<int>(splits);
}

inline DecodeShape decode_shape(const AttentionParams& p, int sm_count) {
  DecodeShape shape{};
  shape.group = p.q_heads / p.kv_heads;
  shape.group_inverse = 1.0F / static_cast<float>(shape.group);
  shape.rows_per_head = shape.group * p.q_len;
  shape.row_blocks = (shape.rows_per_head + kDecodeRows - 1) / kDecodeRows;
  shape.heads = static_cast<std::int64_t>(p.batch) * p.kv_heads;
  shape.splits = decode_splits(shape.heads * shape.row_blocks, sm_count);
  return shape;
}

// Whether the grid leaves at most one block to a multiprocessor, which then needs more warps to keep enough
// keys on their way. Not a matter of the keys: a recorded call takes the tile that a call made anew takes.
inline bool decode_few_blocks(const DecodeShape& shape, int sm_count) {
  return shape.heads * shape.row_blocks * shape.splits <= sm_count;
}

inline std::size_t decode_workspace(const AttentionParams& p, int sm_count) {
  const DecodeShape shape = decode_shape(p, sm_count);
  if (shape.splits == 1) return 0;
  const auto rows = static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.rows_per_head);
  return rows * static_cast<std::size_t>(shape.splits) * (static_cast<std::size_t>(p.head_dim) + 2) *
         sizeof(float);
}

}  // namespace attn::cuda
