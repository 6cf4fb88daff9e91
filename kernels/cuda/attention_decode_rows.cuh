// Rows of a decode step on their way: keys and values to shared memory, queries and the new key turned,
// results out.
#pragma once

#include <cmath>

#include "kernels/cuda/attention_decode_shape.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rotate.cuh"

namespace attn::cuda {

// The query of row r of a (batch, key head): r / group, which is at most kDecodeMaxQueries. The half keeps
// the rounding of the product away from whole numbers.
__device__ __forceinline__ int query_of_row(const DecodeShape& shape, int r) {
  return static_cast<int>((static_cast<float>(r) + 0.5F) * shape.group_inverse);
}
// And the head.
__device__ __forceinline__ int head_of_row(const DecodeShape& shape, int kv_head, int r) {
  return kv_head * shape.group + r - query_of_row(shape, r) * shape.group;
}

// Four of a row's outputs, from d.
template <typename T>
__device__ __forceinline__ void write_decoded(const AttentionParams& p, const DecodeShape& shape, int b,
                                              int kv_head, int r, int d, const float (&value)[4], float base,
                                              float sum) {
  const int query = query_of_row(shape, r);
  const int head = head_of_row(shape, kv_head, r);
  // A sum is 0 or, with the largest weight in it, about 1 or more.
  const float factor = __fdividef(1.0F, sum);
  float out[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) out[e] = sum == 0.0F ? 0.0F : value[e] * factor;
  *reinterpret_cast<uint2*>(row_of<T>(p.out, p.out_stride, b, query, head) + d) =
      make_uint2(pack_pair<T>(out[0], out[1]), pack_pair<T>(out[2], out[3]));
  if (d == 0 && p.lse != nullptr)
    p.lse[lse_index(p, b, query, head)] = sum == 0.0F ? -INFINITY : (base + log2f(sum)) * kLn2;
}

// The value, which the compiler then keeps and does not compute anew at each use.
__device__ __forceinline__ int kept(int value) {
  asm("" : "+r"(value));
  return value;
}

// A lane's pieces of a slab: 64 elements wide of rows row, row + 4, ..., and of the 16 or 32 elements that
// these may leave of a row, of rows rest_row, ... So most of an address is the same for all slabs.
template <class Tile>
struct SlabLane {
  static constexpr int kRows = 4;
  static constexpr int kWide = Tile::kDim / 64 * 64;
  static constexpr int kRest = (Tile::kDim - kWide) / 8;            // chunks
  static constexpr int kRestRows = kRest > 0 ? 32 / kRest : kSlab;  // at a time
  static_assert(kSlab % kRestRows == 0 && (kRest == 0 || kRest * kRestRows == 32));
  int row, column, rest_row, rest_column;

  // From the first piece to the first of the rest, in elements.
  __device__ int to_rest(int step) const { return (rest_row - row) * step + rest_column - column; }
};
template <class Tile>
__device__ __forceinline__ SlabLane<Tile> slab_lane() {
  using Lane = SlabLane<Tile>;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  constexpr int kRest = Lane::kRest > 0 ? Lane::kRest : 1;
  return {lane / 8, lane % 8 * 8, lane / kRest, Lane::kWide + lane % kRest * 8};
}

// Copies rows 0 ... count - 1 of a slab and zeroes the others. By a warp; target and source are where the
// lane's first piece goes and lies, the rests how far from there the first of the rest.
template <class Tile>
__device__ __forceinline__ void load_slab(const SlabLane<Tile>& at, typename Tile::T* target, int target_rest,
                                          const typename Tile::T* source, int source_rest, int step,
                                          int count) {
  using Lane = SlabLane<Tile>;
#pragma unroll
  for (int r = 0; r < kSlab; r += Lane::kRows) {
#pragma unroll
    for (int c = 0; c < Lane::kWide; c += 64)
      copy_async(target + r * Tile::kStep + c, source + r * step + c, at.row + r < count);
  }
  if constexpr (Lane::kRest > 0) {
#pragma unroll
    for (int r = 0; r < kSlab; r += Lane::kRestRows)
      copy_async(target + target_rest + r * Tile::kStep, source + source_rest + r * step,
                 at.rest_row + r < count);
  }
}

// A lane's part of the rotary table's row: pairs lane, lane + 32, ...
template <class Tile>
struct TurnOf {
  static constexpr int kPairs = (Tile::kDim / 2 + 31) / 32;
  float cosine[kPairs], sine[kPairs];
};
template <class Tile>
__device__ __forceinline__ TurnOf<Tile> load_turn(const DecodeAppend& append, int past) {
  TurnOf<Tile> turn;
  const int half = append.rotary_dims / 2;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = past * append.table_step + lane;
  const float* cosines = append.cos + first;
  const float* sines = append.sin + first;
#pragma unroll
  for (int j = 0; j < TurnOf<Tile>::kPairs; ++j) {
    const bool turns = lane + 32 * j < half;
    turn.cosine[j] = turns ? cosines[32 * j] : 0.0F;
    turn.sine[j] = turns ? sines[32 * j] : 0.0F;
  }
  return turn;
}

// The rows of queries [rows, kStep] in shared memory and, with `fresh`, after them the new key and the new
// value, all but the value turned; the new ones also to the cache where `stores`. Each warp takes rows of its
// own, and asks for all of them before it uses one. Ends without a barrier.
template <class Tile>
__device__ __forceinline__ void stage_rows(const AttentionParams& p, const DecodeShape& shape,
                                           const DecodeAppend& append, const TurnOf<Tile>& turn, int b,
                                           int kv_head, int first_row, int rows, int past, bool fresh,
                                           bool stores, typename Tile::T* target) {
  using T = typename Tile::T;
  constexpr int kEach = (kDecodeRows + 2 + Tile::kWarps - 1) / Tile::kWarps;
  static_assert(Tile::kChunks <= 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int all = fresh ? rows + 2 : rows;
  uint4 packs[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = warp + i * Tile::kWarps;
    if (row >= all || lane >= Tile::kChunks) continue;
    const T* source;
    if (row < rows) {
      const int r = first_row + row;
      source = row_of<T>(p.q, p.q_stride, b, query_of_row(shape, r), head_of_row(shape, kv_head, r));
    } else if (row == rows) {
      source = row_of<T>(append.k, append.k_stride, b, 0, kv_head);
    } else {
      source = row_of<T>(append.v, append.v_stride, b, 0, kv_head);
    }
    packs[i] = __ldcg(reinterpret_cast<const uint4*>(source + lane * 8));
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = warp + i * Tile::kWarps;
    if (row < all && lane < Tile::kChunks)
      *reinterpret_cast<uint4*>(target + row * Tile::kStep + lane * 8) = packs[i];
  }
  const int half = append.rotary_dims / 2;
#pragma unroll 1
  for (int row = warp; row < all; row += Tile::kWarps) {
    T* place = target + row * Tile::kStep;
    __syncwarp();
    if (row <= rows) {
#pragma unroll
      for (int j = 0; j < TurnOf<Tile>::kPairs; ++j) {
        const int at = lane + 32 * j;
        if (at >= half) break;
        const TurnedPair pair =
            turn_pair(to_float(place[at]), to_float(place[at + half]), turn.cosine[j], turn.sine[j]);
        place[at] = from_float<T>(pair.first);
        place[at + half] = from_float<T>(pair.second);
      }
    }
    if (row < rows || !stores) continue;
    __syncwarp();
    T* kept = row == rows ? row_of<T>(append.k_cache, p.k_stride, b, past, kv_head)
                          : row_of<T>(append.v_cache, p.v_stride, b, past, kv_head);
    if (lane < Tile::kChunks)
      *reinterpret_cast<uint4*>(kept + lane * 8) = *reinterpret_cast<const uint4*>(place + lane * 8);
  }
}

}  // namespace attn::cuda
