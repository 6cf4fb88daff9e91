// Flash attention for many queries by tensor cores (mma.sync, sm_80 and up), f16 and bf16.
//
// A block computes kRows queries of one head. Its warps own 16 * kRowTiles query rows each and walk the keys
// in tiles of kKeys from the last visible one to the first, so that the masked tiles come first. K and V of a
// tile arrive by cp.async while the other's product runs. Scores and sums stay in registers: the accumulator
// layout of Q K^T is the operand layout of P V. Rows in shared memory are an odd number of 16 bytes apart, so
// ldmatrix meets no bank conflicts at any head dimension, and nothing is padded in the arithmetic.
#pragma once

#include <cmath>

#include <cuda_runtime.h>

#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

template <typename Type, int kDimValue, int kRowsValue, int kKeysValue, int kWarpsValue,
          bool kKeepQueriesValue>
struct FlashTile {
  using T = Type;
  static constexpr int kDim = kDimValue;
  static constexpr int kRows = kRowsValue;
  static constexpr int kKeys = kKeysValue;
  static constexpr int kWarps = kWarpsValue;
  static constexpr bool kKeepQueries = kKeepQueriesValue;  // as fragments in registers
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowTiles = kRows / (16 * kWarps);
  static constexpr int kStep = kDim + 8;    // elements between rows in shared memory
  static constexpr int kChunks = kDim / 8;  // of 16 bytes in a row
  static constexpr int kSharedBytes = (kRows + 2 * kKeys) * kStep * 2;
  static_assert(kDim % 16 == 0 && kKeys % 16 == 0 && kRows == 16 * kWarps * kRowTiles);
};

// Rows of one head into shared memory; rows from `count` on become 0. A thread keeps its column, so that its
// addresses are one sum apart.
template <class Tile, int kTileRows>
__device__ __forceinline__ void load_rows(typename Tile::T* target, const typename Tile::T* source,
                                          std::int64_t step, int count) {
  constexpr int kRowsAtOnce = Tile::kThreads / Tile::kChunks;
  const int first = static_cast<int>(threadIdx.x) / Tile::kChunks;
  const int column = static_cast<int>(threadIdx.x) % Tile::kChunks * 8;
  if (kRowsAtOnce * Tile::kChunks < Tile::kThreads && first >= kRowsAtOnce) return;
  const typename Tile::T* from = source + first * step + column;
  typename Tile::T* to = target + first * Tile::kStep + column;
#pragma unroll
  for (int n = 0; n < kTileRows; n += kRowsAtOnce) {
    if (n + kRowsAtOnce <= kTileRows || first + n < kTileRows)
      copy_async(to + n * Tile::kStep, from, first + n < count);
    from += kRowsAtOnce * step;
  }
}

template <class Tile>
struct FlashState {
  float out[Tile::kRowTiles][Tile::kDim / 8][4] = {};
  float base[Tile::kRowTiles][2];      // the running maximum in units of log2, -infinity at first
  float sum[Tile::kRowTiles][2] = {};  // of this lane's columns alone until the end
};

// a fragment of rows [row, row + 16) and dimensions [16 k, 16 k + 16) of Q.
template <class Tile>
__device__ __forceinline__ void load_queries(std::uint32_t (&a)[4], const typename Tile::T* q, int row,
                                             int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(a, q + (row + lane % 16) * Tile::kStep + k * 16 + lane / 16 * 8);
}

// scores = Q K^T of this warp's rows, raw.
template <class Tile>
__device__ __forceinline__ void score_keys(
    float (&scores)[Tile::kRowTiles][Tile::kKeys / 8][4],
    const std::uint32_t (
        &kept)[Tile::kKeepQueries ? Tile::kRowTiles : 1][Tile::kKeepQueries ? Tile::kDim / 16 : 1][4],
    const typename Tile::T* q, const typename Tile::T* keys, int warp_row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < Tile::kRowTiles; ++r)
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[r][n][e] = 0;
#pragma unroll
  for (int k = 0; k < Tile::kDim / 16; ++k) {
    std::uint32_t a[Tile::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < Tile::kRowTiles; ++r) {
      if constexpr (Tile::kKeepQueries) {
#pragma unroll
        for (int e = 0; e < 4; ++e) a[r][e] = kept[r][k][e];
      } else {
        load_queries<Tile>(a[r], q, warp_row + 16 * r, k);
      }
    }
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 16; ++n) {
      std::uint32_t b[4];  // keys 0-7 and 8-15 of 16, each at dimensions 0-7 and 8-15
      load_matrices(b, keys + (n * 16 + lane / 16 * 8 + lane % 8) * Tile::kStep + k * 16 + lane / 8 % 2 * 8);
#pragma unroll
      for (int r = 0; r < Tile::kRowTiles; ++r) {
        multiply_add<typename Tile::T>(scores[r][2 * n], a[r], b[0], b[1]);
        multiply_add<typename Tile::T>(scores[r][2 * n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// One step of the online softmax: scores become 2^(score c - base), sums and outputs move to the new base.
template <class Tile>
__device__ __forceinline__ void soften(float (&scores)[Tile::kRowTiles][Tile::kKeys / 8][4],
                                       FlashState<Tile>& state, float c) {
#pragma unroll
  for (int r = 0; r < Tile::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY;
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n)
        top = fmaxf(top, fmaxf(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 2));
      const float before = state.base[r][half];
      const float base = fmaxf(before, __fmul_rn(top, c));
      const float shift = base == -INFINITY ? 0.0F : base;  // never (-infinity) - (-infinity)
      const float factor = exp2_fast(before - shift);
      state.base[r][half] = base;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[r][n][2 * half + e];
          score = exp2_fast(__fmaf_rn(score, c, -shift));
          sum += score;
        }
      }
      state.sum[r][half] = state.sum[r][half] * factor + sum;
#pragma unroll
      for (int n = 0; n < Tile::kDim / 8; ++n) {
        state.out[r][n][2 * half] *= factor;
        state.out[r][n][2 * half + 1] *= factor;
      }
    }
  }
}

// out += P V.
template <class Tile>
__device__ __forceinline__ void add_values(FlashState<Tile>& state,
                                           const float (&weights)[Tile::kRowTiles][Tile::kKeys / 8][4],
                                           const typename Tile::T* values) {
  using T = typename Tile::T;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < Tile::kKeys / 16; ++k) {
    std::uint32_t a[Tile::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < Tile::kRowTiles; ++r) {
      const auto& low = weights[r][2 * k];
      const auto& high = weights[r][2 * k + 1];
      a[r][0] = pack_pair<T>(low[0], low[1]);
      a[r][1] = pack_pair<T>(low[2], low[3]);
      a[r][2] = pack_pair<T>(high[0], high[1]);
      a[r][3] = pack_pair<T>(high[2], high[3]);
    }
#pragma unroll
    for (int n = 0; n < Tile::kDim / 16; ++n) {
      std::uint32_t b[4];  // dimensions 0-7 and 8-15 of 16, each at keys 0-7 and 8-15
      load_matrices_transposed(b, values + (k * 16 + lane % 16) * Tile::kStep + n * 16 + lane / 16 * 8);
#pragma unroll
      for (int r = 0; r < Tile::kRowTiles; ++r) {
        multiply_add<T>(state.out[r][2 * n], a[r], b[0], b[1]);
        multiply_add<T>(state.out[r][2 * n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Divides by the sums, writes rows [first, first + count) of the tile through `room`, this warp's own part of
// shared memory, and their lse.
template <class Tile>
__device__ __forceinline__ void write_rows(const AttentionParams& p, FlashState<Tile>& state,
                                           typename Tile::T* room, std::int64_t b, std::int64_t h, int first,
                                           int count) {
  using T = typename Tile::T;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < Tile::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = state.sum[r][half];
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      const float factor = sum == 0.0F ? 0.0F : 1.0F / sum;
      const int row = 16 * r + 8 * half + lane / 4;
#pragma unroll
      for (int n = 0; n < Tile::kDim / 8; ++n) {
        *reinterpret_cast<std::uint32_t*>(room + row * Tile::kStep + n * 8 + lane % 4 * 2) =
            pack_pair<T>(state.out[r][n][2 * half] * factor, state.out[r][n][2 * half + 1] * factor);
      }
      if (p.lse != nullptr && lane % 4 == 0 && row < count) {
        p.lse[lse_index(p, b, first + row, h)] =
            sum == 0.0F ? -INFINITY : (state.base[r][half] + log2f(sum)) * kLn2;
      }
    }
  }
  __syncwarp();
  for (int n = lane; n < 16 * Tile::kRowTiles * Tile::kChunks; n += 32) {
    const int row = n / Tile::kChunks;
    const int column = n % Tile::kChunks * 8;
    if (row < count)
      store_pack(row_of<T>(p.out, p.out_stride, b, first + row, h) + column,
                 load_pack<8>(room + row * Tile::kStep + column));
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) flash_kernel(const AttentionParams p) {
  using T = typename Tile::T;
  extern __shared__ uint4 shared[];
  T* q_room = reinterpret_cast<T*>(shared);
  T* k_room = q_room + Tile::kRows * Tile::kStep;
  T* v_room = k_room + Tile::kKeys * Tile::kStep;

  // Heads change fastest and the last rows, which see most keys, come first.
  const unsigned heads = static_cast<unsigned>(p.batch) * static_cast<unsigned>(p.q_heads);
  const unsigned tiles = gridDim.x / heads;
  const int first = static_cast<int>((tiles - 1 - blockIdx.x / heads) * Tile::kRows);
  const std::int64_t b = blockIdx.x % heads / p.q_heads;
  const std::int64_t h = blockIdx.x % heads % p.q_heads;
  const std::int64_t kv_head = h / (p.q_heads / p.kv_heads);
  const int count = min(Tile::kRows, p.q_len - first);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * Tile::kRowTiles;

  const T* keys = row_of<T>(p.k, p.k_stride, b, 0, kv_head);
  const T* values = row_of<T>(p.v, p.v_stride, b, 0, kv_head);
  const int key_end = visible_keys(p, first + count - 1);
  // What this warp's first and last row see.
  const int warp_least = visible_keys(p, first + warp_row);
  const int warp_most =
      warp_row < count ? visible_keys(p, first + min(warp_row + 16 * Tile::kRowTiles, count) - 1) : 0;

  FlashState<Tile> state;
#pragma unroll
  for (int r = 0; r < Tile::kRowTiles; ++r) state.base[r][0] = state.base[r][1] = -INFINITY;

  int tile = (key_end + Tile::kKeys - 1) / Tile::kKeys - 1;
  std::uint32_t kept[Tile::kKeepQueries ? Tile::kRowTiles : 1][Tile::kKeepQueries ? Tile::kDim / 16 : 1][4];
  if (tile >= 0) {
    load_rows<Tile, Tile::kRows>(q_room, row_of<T>(p.q, p.q_stride, b, first, h), p.q_stride.token, count);
    load_rows<Tile, Tile::kKeys>(k_room,
                                 keys + static_cast<std::int64_t>(tile) * Tile::kKeys * p.k_stride.token,
                                 p.k_stride.token, key_end - tile * Tile::kKeys);
    commit_copies();
    if constexpr (Tile::kKeepQueries) {
      wait_copies<0>();
      __syncthreads();
#pragma unroll
      for (int r = 0; r < Tile::kRowTiles; ++r)
#pragma unroll
        for (int k = 0; k < Tile::kDim / 16; ++k)
          load_queries<Tile>(kept[r][k], q_room, warp_row + 16 * r, k);
    }
  }
  const float c = p.scale * kLog2E;
  for (; tile >= 0; --tile) {
    const int begin = tile * Tile::kKeys;
    wait_copies<0>();
    __syncthreads();  // K has arrived, and nobody reads V of the tile before
    load_rows<Tile, Tile::kKeys>(v_room, values + static_cast<std::int64_t>(begin) * p.v_stride.token,
                                 p.v_stride.token, key_end - begin);
    commit_copies();
    float scores[Tile::kRowTiles][Tile::kKeys / 8][4];
    const bool sees = begin < warp_most;
    if (sees) score_keys<Tile>(scores, kept, q_room, k_room, warp_row);
    wait_copies<0>();
    __syncthreads();  // V has arrived, and nobody reads K any more
    if (tile > 0) {
      load_rows<Tile, Tile::kKeys>(k_room,
                                   keys + static_cast<std::int64_t>(begin - Tile::kKeys) * p.k_stride.token,
                                   p.k_stride.token, Tile::kKeys);
      commit_copies();
    }
    if (!sees) continue;
    if (begin + Tile::kKeys > warp_least) {
#pragma unroll
      for (int r = 0; r < Tile::kRowTiles; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int seen = visible_keys(p, first + warp_row + 16 * r + 8 * half + lane / 4) - begin;
#pragma unroll
          for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e)
              if (n * 8 + lane % 4 * 2 + e >= seen) scores[r][n][2 * half + e] = -INFINITY;
          }
        }
      }
    }
    soften<Tile>(scores, state, c);
    add_values<Tile>(state, scores, v_room);
  }
  write_rows<Tile>(p, state, q_room + warp_row * Tile::kStep, b, h, first + warp_row, count - warp_row);
}

template <class Tile>
cudaError_t launch_flash(const AttentionParams& p, void*, int, cudaStream_t stream) {
  const cudaError_t raised = cudaFuncSetAttribute(
      flash_kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (raised != cudaSuccess) return raised;
  const std::int64_t tiles = (p.q_len + Tile::kRows - 1) / Tile::kRows;
  const std::int64_t blocks = tiles * p.batch * p.q_heads;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  flash_kernel<Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

template <class Tile>
constexpr FlashRow flash_row(const char* name, DType dtype) {
  return {name,       "many queries: mma.sync tensor cores, cp.async tiles, online softmax",
          Tile::kDim, dtype,
          80,         Tile::kSharedBytes,
          0,          true,
          nullptr,    launch_flash<Tile>};
}

}  // namespace attn::cuda
