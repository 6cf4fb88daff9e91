// Flash attention for few queries (a decode step): keys split over blocks, f16 and bf16, sm_80 and up.
//
// The query rows that read one key head (q_len times the group of query heads) are packed into the 16 rows of
// an mma tile, so that the tensor cores do the sums over the head dimension and any head dimension is alike.
// A block takes one split of the keys of one key head; each of its warps streams slabs of 16 keys of its own
// through cp.async stages, without a barrier, and the warps' results are merged at the end. Splits are merged
// by a second kernel in the order of their index, so results do not change from run to run.
#pragma once

#include <algorithm>
#include <cmath>

#include <cuda_runtime.h>

#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

inline constexpr int kDecodeMaxQueries = 16;
inline constexpr int kDecodeRows = 16;  // of an mma tile
inline constexpr int kSlab = 16;        // keys a warp takes at a time

template <typename Type, int kDimValue, int kWarpsValue, int kStagesValue>
struct DecodeTile {
  using T = Type;
  static constexpr int kDim = kDimValue;
  static constexpr int kWarps = kWarpsValue;
  static constexpr int kStages = kStagesValue;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStep = kDim + 8;  // elements between rows in shared memory
  static constexpr int kChunks = kDim / 8;
  static constexpr int kSlabElements = kSlab * kStep;
  static constexpr int kStageBytes = kWarps * kStages * 2 * kSlabElements * 2;
  // Query fragments in registers, or, where they would not fit there, behind the stages: a place for each
  // lane.
  static constexpr bool kKeepQueries = kDim <= 128;
  static constexpr int kSharedBytes = kStageBytes + (kKeepQueries ? 0 : kDim / 16 * 32 * 16);
  static_assert(kDim % 16 == 0 && kStages >= 2);
  // The warps' sums and (maximum, sum) pairs take the stages' place at the end.
  static_assert(kWarps * kDecodeRows * (kDim + 2) * 4 <= kStageBytes);
};

// What one split found for one row: its output before division, its maximum (log2 units) and its sum.
struct DecodePartials {
  float* out;       // [rows, splits, head_dim]
  float* base_sum;  // [rows, splits, 2]
};

// Rows are ordered [batch, kv_head, query, head of the group].
struct DecodeShape {
  int group, rows_per_head, row_blocks, splits, split_keys;
  std::int64_t heads;  // batch * kv_heads
};

// Enough splits to give every multiprocessor two blocks, none of fewer than 128 keys unless there are fewer.
inline DecodeShape decode_shape(const AttentionParams& p, int sm_count) {
  constexpr int kLeastKeys = 128;
  constexpr int kMostSplits = 64;
  DecodeShape shape{};
  shape.group = p.q_heads / p.kv_heads;
  shape.rows_per_head = shape.group * p.q_len;
  shape.row_blocks = (shape.rows_per_head + kDecodeRows - 1) / kDecodeRows;
  shape.heads = static_cast<std::int64_t>(p.batch) * p.kv_heads;
  const std::int64_t blocks = shape.heads * shape.row_blocks;
  const auto wanted = static_cast<int>(std::min<std::int64_t>(2LL * sm_count / blocks, kMostSplits));
  shape.splits = std::max(1, std::min(wanted, (p.kv_len + kLeastKeys - 1) / kLeastKeys));
  const int even = (p.kv_len + shape.splits - 1) / shape.splits;
  shape.split_keys = (even + kSlab - 1) / kSlab * kSlab;
  return shape;
}

inline std::size_t decode_workspace(const AttentionParams& p, int sm_count) {
  const DecodeShape shape = decode_shape(p, sm_count);
  if (shape.splits == 1) return 0;
  const auto rows = static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.rows_per_head);
  return rows * static_cast<std::size_t>(shape.splits) * (static_cast<std::size_t>(p.head_dim) + 2) *
         sizeof(float);
}

// Where row r of a (batch, key head) lies.
struct DecodeRow {
  int query, head;
};
__device__ __forceinline__ DecodeRow decode_row(const DecodeShape& shape, int kv_head, int r) {
  return {r / shape.group, kv_head * shape.group + r % shape.group};
}

template <typename T>
__device__ __forceinline__ void write_decoded(const AttentionParams& p, const DecodeShape& shape,
                                              std::int64_t head, int r, int d, float value, float base,
                                              float sum) {
  const std::int64_t b = head / p.kv_heads;
  const DecodeRow row = decode_row(shape, static_cast<int>(head % p.kv_heads), r);
  row_of<T>(p.out, p.out_stride, b, row.query, row.head)[d] = from_float<T>(sum == 0.0F ? 0.0F : value / sum);
  if (d == 0 && p.lse != nullptr)
    p.lse[lse_index(p, b, row.query, row.head)] = sum == 0.0F ? -INFINITY : (base + log2f(sum)) * kLn2;
}

template <class Tile>
__device__ __forceinline__ void load_slab(typename Tile::T* target, const typename Tile::T* source,
                                          std::int64_t step, int count) {
  for (int n = static_cast<int>(threadIdx.x) % 32; n < kSlab * Tile::kChunks; n += 32) {
    const int row = n / Tile::kChunks;
    const int column = n % Tile::kChunks * 8;
    const bool present = row < count;
    copy_async(target + row * Tile::kStep + column, source + row * step + column, present);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    decode_kernel(const AttentionParams p, const DecodeShape shape, const DecodePartials partials) {
  using T = typename Tile::T;
  extern __shared__ uint4 shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int split = static_cast<int>(blockIdx.x % shape.splits);
  const int row_block = static_cast<int>(blockIdx.x / shape.splits % shape.row_blocks);
  const std::int64_t head = blockIdx.x / shape.splits / shape.row_blocks;
  const int kv_head = static_cast<int>(head % p.kv_heads);
  const std::int64_t b = head / p.kv_heads;
  const int begin = split * shape.split_keys;
  const int end = min(begin + shape.split_keys, p.kv_len);
  const int first_row = row_block * kDecodeRows;

  // The query fragments, straight from where they lie, and how many keys the lane's two rows see.
  std::uint32_t kept[Tile::kKeepQueries ? Tile::kDim / 16 : 1][4];
  uint4* fragments = shared + Tile::kStageBytes / 16;  // [dim / 16][lane]
  int seen[2];
  const T* sources[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = first_row + lane / 4 + 8 * half;
    const bool present = r < shape.rows_per_head;
    const DecodeRow row = decode_row(shape, kv_head, present ? r : 0);
    sources[half] = present ? row_of<T>(p.q, p.q_stride, b, row.query, row.head) : nullptr;
    seen[half] = present ? min(visible_keys(p, row.query), end) : 0;
  }
  const auto query_pair = [&](int half, int d) {
    return sources[half] == nullptr
               ? 0U
               : *reinterpret_cast<const std::uint32_t*>(sources[half] + d + lane % 4 * 2);
  };
#pragma unroll
  for (int k = 0; k < Tile::kDim / 16; ++k) {
    const std::uint32_t q[4] = {query_pair(0, 16 * k), query_pair(1, 16 * k), query_pair(0, 16 * k + 8),
                                query_pair(1, 16 * k + 8)};
    if constexpr (Tile::kKeepQueries) {
#pragma unroll
      for (int e = 0; e < 4; ++e) kept[k][e] = q[e];
    } else if (warp == 0) {
      fragments[k * 32 + lane] = {q[0], q[1], q[2], q[3]};
    }
  }
  if constexpr (!Tile::kKeepQueries) __syncthreads();

  T* stages = reinterpret_cast<T*>(shared) + warp * Tile::kStages * 2 * Tile::kSlabElements;
  const T* keys = row_of<T>(p.k, p.k_stride, b, 0, kv_head);
  const T* values = row_of<T>(p.v, p.v_stride, b, 0, kv_head);
  const int slabs = end > begin ? (end - begin + kSlab - 1) / kSlab : 0;
  const int own = slabs > warp ? (slabs - warp + Tile::kWarps - 1) / Tile::kWarps : 0;
  const auto issue = [&](int n) {
    if (n < own) {
      const int key = begin + (warp + n * Tile::kWarps) * kSlab;
      T* stage = stages + n % Tile::kStages * 2 * Tile::kSlabElements;
      load_slab<Tile>(stage, keys + key * p.k_stride.token, p.k_stride.token, end - key);
      load_slab<Tile>(stage + Tile::kSlabElements, values + key * p.v_stride.token, p.v_stride.token,
                      end - key);
    }
    commit_copies();  // also an empty group, so that groups count slabs
  };
#pragma unroll
  for (int n = 0; n < Tile::kStages - 1; ++n) issue(n);

  float out[Tile::kDim / 8][4] = {};
  float base[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  const float c = p.scale * kLog2E;
  for (int n = 0; n < own; ++n) {
    wait_copies<Tile::kStages - 2>();
    __syncwarp();  // the slab has arrived for all lanes, and all have done with the one before
    issue(n + Tile::kStages - 1);
    const T* k_slab = stages + n % Tile::kStages * 2 * Tile::kSlabElements;
    const T* v_slab = k_slab + Tile::kSlabElements;
    float scores[2][4] = {};
#pragma unroll
    for (int k = 0; k < Tile::kDim / 16; ++k) {
      std::uint32_t q[4];
      if constexpr (Tile::kKeepQueries) {
#pragma unroll
        for (int e = 0; e < 4; ++e) q[e] = kept[k][e];
      } else {
        const uint4 place = fragments[k * 32 + lane];
        q[0] = place.x;
        q[1] = place.y;
        q[2] = place.z;
        q[3] = place.w;
      }
      std::uint32_t f[4];
      load_matrices(f, k_slab + (lane / 16 * 8 + lane % 8) * Tile::kStep + k * 16 + lane / 8 % 2 * 8);
      multiply_add<T>(scores[0], q, f[0], f[1]);
      multiply_add<T>(scores[1], q, f[2], f[3]);
    }
    const int key = begin + (warp + n * Tile::kWarps) * kSlab + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& score = scores[e / 2][2 * half + e % 2];
        if (key + e / 2 * 8 + e % 2 >= seen[half]) score = -INFINITY;
        top = fmaxf(top, score);
      }
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 2));
      const float before = base[half];
      base[half] = fmaxf(before, __fmul_rn(top, c));
      const float shift = base[half] == -INFINITY ? 0.0F : base[half];
      const float factor = exp2_fast(before - shift);
      sum[half] *= factor;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& score = scores[e / 2][2 * half + e % 2];
        score = exp2_fast(__fmaf_rn(score, c, -shift));
        sum[half] += score;
      }
#pragma unroll
      for (int d = 0; d < Tile::kDim / 8; ++d) {
        out[d][2 * half] *= factor;
        out[d][2 * half + 1] *= factor;
      }
    }
    const std::uint32_t weights[4] = {
        pack_pair<T>(scores[0][0], scores[0][1]), pack_pair<T>(scores[0][2], scores[0][3]),
        pack_pair<T>(scores[1][0], scores[1][1]), pack_pair<T>(scores[1][2], scores[1][3])};
#pragma unroll
    for (int d = 0; d < Tile::kDim / 16; ++d) {
      std::uint32_t f[4];
      load_matrices_transposed(f, v_slab + lane % 16 * Tile::kStep + d * 16 + lane / 16 * 8);
      multiply_add<T>(out[2 * d], weights, f[0], f[1]);
      multiply_add<T>(out[2 * d + 1], weights, f[2], f[3]);
    }
  }

  // Merge the warps: [warp][row][dim] sums, then [warp][row] (base, sum).
  wait_copies<0>();
  __syncthreads();
  float* outs = reinterpret_cast<float*>(shared);
  float* pairs = outs + Tile::kWarps * kDecodeRows * Tile::kDim;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(kWholeWarp, sum[half], 1);
    sum[half] += __shfl_xor_sync(kWholeWarp, sum[half], 2);
    const int row = warp * kDecodeRows + lane / 4 + 8 * half;
#pragma unroll
    for (int d = 0; d < Tile::kDim / 8; ++d) {
      outs[row * Tile::kDim + d * 8 + lane % 4 * 2] = out[d][2 * half];
      outs[row * Tile::kDim + d * 8 + lane % 4 * 2 + 1] = out[d][2 * half + 1];
    }
    if (lane % 4 == 0) {
      pairs[2 * row] = base[half];
      pairs[2 * row + 1] = sum[half];
    }
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < kDecodeRows * Tile::kDim; n += Tile::kThreads) {
    const int row = n / Tile::kDim;
    const int d = n % Tile::kDim;
    const int r = first_row + row;
    if (r >= shape.rows_per_head) break;
    float top = -INFINITY;
    for (int w = 0; w < Tile::kWarps; ++w) top = fmaxf(top, pairs[2 * (w * kDecodeRows + row)]);
    const float shift = top == -INFINITY ? 0.0F : top;
    float value = 0;
    float total = 0;
    for (int w = 0; w < Tile::kWarps; ++w) {
      const int at = w * kDecodeRows + row;
      const float factor = exp2_fast(pairs[2 * at] - shift);
      value += outs[at * Tile::kDim + d] * factor;
      total += pairs[2 * at + 1] * factor;
    }
    if (shape.splits == 1) {
      write_decoded<T>(p, shape, head, r, d, value, top, total);
      continue;
    }
    const std::int64_t place = (head * shape.rows_per_head + r) * shape.splits + split;
    partials.out[place * Tile::kDim + d] = value;
    if (d == 0) {
      partials.base_sum[2 * place] = top;
      partials.base_sum[2 * place + 1] = total;
    }
  }
}

// A block a row: merges its splits in order.
template <typename T>
__global__ void combine_kernel(const AttentionParams p, const DecodeShape shape,
                               const DecodePartials partials) {
  const std::int64_t row = blockIdx.x;
  const float* pairs = partials.base_sum + row * shape.splits * 2;
  const float* outs = partials.out + row * shape.splits * p.head_dim;
  float top = -INFINITY;
  for (int s = 0; s < shape.splits; ++s) top = fmaxf(top, pairs[2 * s]);
  const float shift = top == -INFINITY ? 0.0F : top;
  const auto d = static_cast<int>(threadIdx.x);
  if (d >= p.head_dim) return;
  float value = 0;
  float total = 0;
  for (int s = 0; s < shape.splits; ++s) {
    const float factor = exp2_fast(pairs[2 * s] - shift);
    value += outs[static_cast<std::int64_t>(s) * p.head_dim + d] * factor;
    total += pairs[2 * s + 1] * factor;
  }
  write_decoded<T>(p, shape, row / shape.rows_per_head, static_cast<int>(row % shape.rows_per_head), d, value,
                   top, total);
}

template <class Tile>
cudaError_t launch_decode(const AttentionParams& p, void* workspace, int sm_count, cudaStream_t stream) {
  using T = typename Tile::T;
  const DecodeShape shape = decode_shape(p, sm_count);
  const std::int64_t rows = shape.heads * shape.rows_per_head;
  const std::int64_t blocks = shape.heads * shape.row_blocks * shape.splits;
  if (blocks > 0x7fffffff || rows > 0x7fffffff) return cudaErrorInvalidConfiguration;
  const cudaError_t raised = cudaFuncSetAttribute(
      decode_kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (raised != cudaSuccess) return raised;
  DecodePartials partials{};
  partials.out = static_cast<float*>(workspace);
  if (shape.splits > 1) partials.base_sum = partials.out + rows * shape.splits * p.head_dim;
  decode_kernel<Tile>
      <<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kSharedBytes, stream>>>(p, shape, partials);
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess || shape.splits == 1) return launched;
  combine_kernel<T>
      <<<static_cast<unsigned>(rows), threads_for(p.head_dim, 256), 0, stream>>>(p, shape, partials);
  return cudaGetLastError();
}

template <class Tile>
constexpr FlashRow decode_table_row(const char* name, DType dtype) {
  return {name,
          "up to 16 queries (decode): keys split over blocks, mma.sync, merged in order",
          Tile::kDim,
          dtype,
          80,
          Tile::kSharedBytes,
          kDecodeMaxQueries,
          true,
          decode_workspace,
          launch_decode<Tile>};
}

}  // namespace attn::cuda
