// Rows of a decode step on their way: keys and values to shared memory, queries and the new key turned,
// results out.
#pragma once

#include <cmath>

#include "kernels/cuda/attention_decode_shape.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/rotate.cuh"

namespace attn::cuda {

// Where row r of a (batch, key head) lies.
struct DecodeRow {
  int query, head;
};
__device__ __forceinline__ DecodeRow decode_row(const DecodeShape& shape, int kv_head, int r) {
  return {r / shape.group, kv_head * shape.group + r % shape.group};
}

template <typename T>
__device__ __forceinline__ void write_decoded(const AttentionParams& p, const DecodeShape& shape, int b,
                                              int kv_head, int r, int d, float value, float base, float sum) {
  const DecodeRow row = decode_row(shape, kv_head, r);
  row_of<T>(p.out, p.out_stride, b, row.query, row.head)[d] = from_float<T>(sum == 0.0F ? 0.0F : value / sum);
  if (d == 0 && p.lse != nullptr)
    p.lse[lse_index(p, b, row.query, row.head)] = sum == 0.0F ? -INFINITY : (base + log2f(sum)) * kLn2;
}

// Copies rows 0 ... count - 1 of a slab and zeroes the others, but leaves row `skipped` alone. kWhole: count
// is kSlab, and nothing is skipped.
template <class Tile, bool kWhole>
__device__ __forceinline__ void load_slab(typename Tile::T* target, const typename Tile::T* source, int step,
                                          int count, int skipped) {
  asm volatile("" : "+r"(step));  // else all products are kept in registers, which there are not
#pragma unroll
  for (int n = 0; n < kSlab * Tile::kChunks; n += 32) {
    const int at = n + static_cast<int>(threadIdx.x) % 32;
    const int row = at / Tile::kChunks;
    const int column = at % Tile::kChunks * 8;
    if (!kWhole && row == skipped) continue;
    copy_async(target + row * Tile::kStep + column, source + row * step + column, kWhole || row < count);
  }
}

// The rows of queries [rows, kStep] in shared memory and, with `fresh`, after them the new key and the new
// value, all turned; the new ones also to the cache where `stores`. All threads; ends without a barrier.
template <class Tile>
__device__ __forceinline__ void stage_rows(const AttentionParams& p, const DecodeShape& shape,
                                           const DecodeAppend& append, int b, int kv_head, int first_row,
                                           int rows, int past, bool fresh, bool stores,
                                           typename Tile::T* target) {
  using T = typename Tile::T;
  const auto thread = static_cast<int>(threadIdx.x);
  const int turned = fresh ? rows + 1 : rows;
  const T* key = fresh ? row_of<T>(append.k, append.k_stride, b, 0, kv_head) : nullptr;
  T* key_place = stores ? row_of<T>(append.k_cache, p.k_stride, b, past, kv_head) : nullptr;
  const auto source_of = [&](int row) {
    if (row == rows) return key;
    const DecodeRow place = decode_row(shape, kv_head, first_row + row);
    return row_of<T>(p.q, p.q_stride, b, place.query, place.head);
  };
  const int half = append.rotary_dims / 2;
  if (half == 0) {
    for (int n = thread; n < turned * Tile::kChunks; n += Tile::kThreads) {
      const int row = n / Tile::kChunks;
      const int column = n % Tile::kChunks * 8;
      const uint4 pack = __ldcg(reinterpret_cast<const uint4*>(source_of(row) + column));
      *reinterpret_cast<uint4*>(target + row * Tile::kStep + column) = pack;
      if (row == rows && stores) *reinterpret_cast<uint4*>(key_place + column) = pack;
    }
  } else {
    const float* cosines = append.cos + past * append.table_step;
    const float* sines = append.sin + past * append.table_step;
    const int items = Tile::kDim - half;  // the pairs, then the dimensions that do not turn
    for (int n = thread; n < turned * items; n += Tile::kThreads) {
      const int row = n / items;
      const int item = n - row * items;
      const T* source = source_of(row);
      const auto write = [&](int d, T value) {
        target[row * Tile::kStep + d] = value;
        if (row == rows && stores) key_place[d] = value;
      };
      const T second = __ldcg(source + item + half);
      if (item >= half) {
        write(item + half, second);
        continue;
      }
      const T first = __ldcg(source + item);
      const TurnedPair pair = turn_pair(to_float(first), to_float(second), cosines[item], sines[item]);
      write(item, from_float<T>(pair.first));
      write(item + half, from_float<T>(pair.second));
    }
  }
  if (!fresh) return;
  const T* value = row_of<T>(append.v, append.v_stride, b, 0, kv_head);
  T* value_place = stores ? row_of<T>(append.v_cache, p.v_stride, b, past, kv_head) : nullptr;
  for (int n = Tile::kThreads - 1 - thread; n < Tile::kChunks; n += Tile::kThreads) {
    const uint4 pack = __ldcg(reinterpret_cast<const uint4*>(value + n * 8));
    *reinterpret_cast<uint4*>(target + (rows + 1) * Tile::kStep + n * 8) = pack;
    if (stores) *reinterpret_cast<uint4*>(value_place + n * 8) = pack;
  }
}

}  // namespace attn::cuda
