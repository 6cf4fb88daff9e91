// Flash attention for few queries (a decode step): keys split over blocks, f16 and bf16, sm_80 and up.
//
// The query rows that read one key head (q_len times the group of query heads) are packed into the 8 columns
// of an mma tile whose 16 rows are keys (K Q^T) or dimensions (V^T P^T), so that the tensor cores do the sums
// over the head dimension and any head dimension is alike.
// A block takes one split of the keys of one key head; each of its warps streams slabs of 16 keys of its own
// through a ring of cp.async stages, without a barrier, and the warps' results are merged at the end. The
// block that finishes a key head's last split merges the splits in the order of their index, whichever block
// it is, so that results do not change from run to run.
//
// The number of splits and the tile depend on the GPU and on the number of (sequence, key head, row block)s,
// not on the keys, and the splits' size on the keys that there are now: a recorded call gives the bits of a
// call made anew. The price: a sequence's bits depend on how many others share the call.
//
// With an append the block whose split ends at the new key turns that key in shared memory and puts it, from
// there, into its own slab and into the cache. No other block reads that row of the cache.
#pragma once

#include <algorithm>

#include <cuda_runtime.h>

#include "kernels/cuda/attention_decode_rows.cuh"
#include "kernels/cuda/programmatic_launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

// What one split found for one row: its output before division, its maximum (log2 units) and its sum.
struct DecodePartials {
  float* out;        // [rows, splits, head_dim]
  float2* base_sum;  // [rows, splits]
  std::uint32_t* tickets;
};

// Whether this block is the last of `count` to come; what the others wrote is then seen by __ldcg. Leaves the
// ticket zero for the next launch.
__device__ __forceinline__ bool last_to_arrive(std::uint32_t* ticket, int count) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    const std::uint32_t most = static_cast<std::uint32_t>(count) - 1;
    std::uint32_t before = 0;
    // The barriers around it extend what it releases and acquires to the whole block.
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;\n"
                 : "=r"(before)
                 : "l"(ticket), "r"(most)
                 : "memory");
    last = before == most;
  }
  __syncthreads();
  return last;
}

// Four of a row's outputs before division, with the row's maximum (log2 units) and its sum.
struct MergedRow {
  float value[4] = {};
  float top = -INFINITY;
  float total = 0;

  // What is there, to a maximum that is no smaller.
  __device__ __forceinline__ void rescale(float new_top) {
    const float factor = exp2_fast(top - (new_top == -INFINITY ? 0.0F : new_top));
    top = new_top;
    total *= factor;
#pragma unroll
    for (int e = 0; e < 4; ++e) value[e] *= factor;
  }
  // A part whose (maximum, sum) is `found`; no maximum is above top.
  __device__ __forceinline__ void add(const float4& part, const float2& found) {
    const float factor = exp2_fast(found.x - (top == -INFINITY ? 0.0F : top));
    value[0] += part.x * factor;
    value[1] += part.y * factor;
    value[2] += part.z * factor;
    value[3] += part.w * factor;
    total += found.y * factor;
  }
};

// From shared memory: outs [warp, row, dim], pairs [warp, row].
template <class Tile>
__device__ __forceinline__ MergedRow merge_warps(const float* outs, const float2* pairs, unsigned row,
                                                 unsigned d) {
  MergedRow merged;
  float2 found[Tile::kWarps];
#pragma unroll
  for (int w = 0; w < Tile::kWarps; ++w) {
    found[w] = pairs[w * kDecodeRows + row];
    merged.top = fmaxf(merged.top, found[w].x);
  }
#pragma unroll
  for (int w = 0; w < Tile::kWarps; ++w)
    merged.add(*reinterpret_cast<const float4*>(outs + (w * kDecodeRows + row) * Tile::kDim + d), found[w]);
  return merged;
}

// From what the splits' blocks left, some splits at a time. `place`: of the row's first split.
template <class Tile>
__device__ __forceinline__ MergedRow merge_splits(const DecodePartials& partials, unsigned place, unsigned d,
                                                  int count) {
  constexpr int kAtOnce = 4;
  const float2* found_at = partials.base_sum + place;
  const float* part_at = partials.out + place * Tile::kDim + d;
  MergedRow merged;
#pragma unroll 1
  for (int first = 0; first < count; first += kAtOnce) {
    float2 found[kAtOnce];
    float4 part[kAtOnce];
    float top = merged.top;
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      found[s] = make_float2(-INFINITY, 0.0F);
      part[s] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      if (first + s >= count) continue;
      found[s] = __ldcg(found_at + s);
      part[s] = __ldcg(reinterpret_cast<const float4*>(part_at + s * Tile::kDim));
    }
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) top = fmaxf(top, found[s].x);
    merged.rescale(top);
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) merged.add(part[s], found[s]);
    found_at += kAtOnce;
    part_at += kAtOnce * Tile::kDim;
  }
  return merged;
}

// Most code runs once a launch, and its instructions come through the memory system that the keys keep busy:
// what runs once is kept small, not unrolled.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    decode_kernel(const AttentionParams given, const DecodeShape shape, const DecodeAppend append,
                  const DecodePartials partials) {
  using T = typename Tile::T;
  extern __shared__ uint4 shared[];
  const bool appends = append.k != nullptr;
  if (!appends) {
    wait_for_previous();
    let_next_start();
  }
  AttentionParams p = given;
  if (p.past_len != nullptr) p.kv_len = __ldcg(p.past_len) + p.q_len;
  const int past = p.kv_len - p.q_len;

  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto head = static_cast<int>(blockIdx.x);  // [batch, kv_head]
  const auto split = static_cast<int>(blockIdx.y);
  const auto row_block = static_cast<int>(blockIdx.z);
  const auto b = static_cast<int>(blockIdx.x / static_cast<unsigned>(p.kv_heads));
  const int kv_head = head - b * p.kv_heads;
  const int first_row = row_block * kDecodeRows;
  const int rows = min(kDecodeRows, shape.rows_per_head - first_row);

  // The split's keys: all splits but the last that is not empty have `chunk`.
  const auto splits = static_cast<unsigned>(shape.splits);
  const auto even = static_cast<int>((static_cast<unsigned>(p.kv_len) + splits - 1) / splits);
  const int chunk = max((even + kSlab - 1) / kSlab * kSlab, Tile::kLeastKeys);
  const int begin = split * chunk;
  const int end = min(begin + chunk, p.kv_len);
  const bool owns_fresh = appends && begin < p.kv_len && end == p.kv_len;
  const int cached = owns_fresh ? past : end;  // where the keys to be read end

  T* stages = reinterpret_cast<T*>(shared) + warp * Tile::kStages * 2 * Tile::kSlabElements;
  const auto k_step = static_cast<int>(p.k_stride.token);
  const auto v_step = static_cast<int>(p.v_stride.token);
  constexpr int kStageElements = 2 * Tile::kSlabElements;
  constexpr int kStride = Tile::kWarps * kSlab;  // keys between slabs of a warp
  const SlabLane<Tile> at = slab_lane<Tile>();
  const int to_first = kept(at.row * Tile::kStep + at.column);
  const int to_rest = kept(at.to_rest(Tile::kStep));
  const int k_rest = kept(at.to_rest(k_step));
  const int v_rest = kept(at.to_rest(v_step));
  // The next slab to be asked for: its first key, and where the lane's first pieces lie.
  int next_key = begin + warp * kSlab;
  const T* next_k =
      row_of<T>(p.k, p.k_stride, b, 0, kv_head) + std::int64_t{next_key + at.row} * k_step + at.column;
  const T* next_v =
      row_of<T>(p.v, p.v_stride, b, 0, kv_head) + std::int64_t{next_key + at.row} * v_step + at.column;
  const auto issue = [&](T* stage) {
    if (next_key < end) {
      T* target = stage + to_first;
      const int count = cached - next_key;
      load_slab<Tile>(at, target, to_rest, next_k, k_rest, k_step, count);
      load_slab<Tile>(at, target + Tile::kSlabElements, to_rest, next_v, v_rest, v_step, count);
      next_key += kStride;
      next_k += std::int64_t{kStride} * k_step;
      next_v += std::int64_t{kStride} * v_step;
    }
    commit_copies();  // also an empty group, so that groups count slabs
  };
#pragma unroll 1
  for (int n = 0; n < Tile::kStages; ++n) issue(stages + n * kStageElements);
  const TurnOf<Tile> turn = load_turn<Tile>(append, past);

  if (appends) {
    wait_for_previous();
    let_next_start();
  }
  if (split > 0 && begin >= p.kv_len) return;  // nothing was issued

  // Queries, and how many keys the lane's two see.
  T* staged = reinterpret_cast<T*>(shared + Tile::kStageBytes / 16);
  const T* fresh = staged + rows * Tile::kStep;
  stage_rows<Tile>(p, shape, append, turn, b, kv_head, first_row, rows, past, owns_fresh,
                   owns_fresh && row_block == 0, staged);
  __syncthreads();
  // Rows that there are not are copies of the last and see no key.
  const T* query_place = staged + min(lane / 4, rows - 1) * Tile::kStep + lane % 4 * 2;
  std::uint32_t queries[Tile::kDim / 16][2];
#pragma unroll
  for (int k = 0; k < Tile::kDim / 16; ++k) {
    queries[k][0] = *reinterpret_cast<const std::uint32_t*>(query_place + 16 * k);
    queries[k][1] = *reinterpret_cast<const std::uint32_t*>(query_place + 16 * k + 8);
  }
  int seen[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int r = first_row + lane % 4 * 2 + j;
    seen[j] = r < shape.rows_per_head ? min(visible_keys(p, query_of_row(shape, r)), end) : 0;
  }
  float out[Tile::kDim / 16][4] = {};  // transposed: dimensions lane / 4 (+ 8), the lane's two queries
  float base[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  const float c = p.scale * kLog2E;
  const int k_matrix = kept(lane % 16 * Tile::kStep + lane / 16 * 8);
  const int v_matrix = kept((lane / 16 * 8 + lane % 8) * Tile::kStep + lane / 8 % 2 * 8);
  T* k_slab = stages;
#pragma unroll 1
  for (int first_key = begin + warp * kSlab; first_key < end; first_key += kStride) {
    T* v_slab = k_slab + Tile::kSlabElements;
    wait_copies<Tile::kStages - 1>();
    if (owns_fresh && past - first_key < kSlab) {
      __syncwarp();  // no lane's copy may zero the row afterwards
      const int row = past - first_key;
#pragma unroll 1
      for (int chunk_at = lane; chunk_at < 2 * Tile::kChunks; chunk_at += 32) {
        const int which = chunk_at / Tile::kChunks;  // key, value
        const int column = chunk_at % Tile::kChunks * 8;
        *reinterpret_cast<uint4*>((which == 0 ? k_slab : v_slab) + row * Tile::kStep + column) =
            *reinterpret_cast<const uint4*>(fresh + which * Tile::kStep + column);
      }
    }
    __syncwarp();  // the slab has arrived for all lanes
    // Keys lane / 4 (+ 8), the lane's two queries; two sums, since each product waits for the one before.
    float scores[4] = {};
    float odd[4] = {};
#pragma unroll
    for (int k = 0; k < Tile::kDim / 16; ++k) {
      std::uint32_t f[4];
      load_matrices(f, k_slab + k_matrix + k * 16);
      multiply_add<T>(k % 2 == 0 ? scores : odd, f, queries[k][0], queries[k][1]);
    }
    const int key = first_key + lane / 4;
    float top[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      scores[j] = key < seen[j] ? scores[j] + odd[j] : -INFINITY;
      scores[2 + j] = key + 8 < seen[j] ? scores[2 + j] + odd[2 + j] : -INFINITY;
      top[j] = __fmul_rn(fmaxf(scores[j], scores[2 + j]), c);
    }
    if (__any_sync(kWholeWarp, top[0] > base[0] || top[1] > base[1])) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2)
          top[j] = fmaxf(top[j], __shfl_xor_sync(kWholeWarp, top[j], step));
        top[j] = fmaxf(top[j], base[j]);
        const float factor = exp2_fast(base[j] - (top[j] == -INFINITY ? 0.0F : top[j]));
        base[j] = top[j];
        sum[j] *= factor;
#pragma unroll
        for (int d = 0; d < Tile::kDim / 16; ++d) {
          out[d][j] *= factor;
          out[d][2 + j] *= factor;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float shift = base[j] == -INFINITY ? 0.0F : base[j];
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        scores[e + j] = exp2_fast(__fmaf_rn(scores[e + j], c, -shift));
        sum[j] += scores[e + j];
      }
    }
    const std::uint32_t weights[2] = {transpose_matrix(pack_pair<T>(scores[0], scores[1])),
                                      transpose_matrix(pack_pair<T>(scores[2], scores[3]))};
#pragma unroll
    for (int d = 0; d < Tile::kDim / 16; ++d) {
      std::uint32_t f[4];
      load_matrices_transposed(f, v_slab + v_matrix + d * 16);
      multiply_add<T>(out[d], f, weights[0], weights[1]);
    }
    __syncwarp();  // all lanes have done with the slab
    issue(k_slab);
    k_slab += kStageElements;
    if (k_slab == stages + Tile::kStages * kStageElements) k_slab = stages;
  }

  // The warps' sums [warp][row][dim], then their (base, sum) [warp][row].
  wait_copies<0>();
  __syncthreads();
  float* outs = reinterpret_cast<float*>(shared);
  auto* pairs = reinterpret_cast<float2*>(outs + Tile::kWarps * kDecodeRows * Tile::kDim);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) sum[j] += __shfl_xor_sync(kWholeWarp, sum[j], step);
    if (lane % 4 * 2 + j >= rows) continue;
    const int row = warp * kDecodeRows + lane % 4 * 2 + j;
#pragma unroll
    for (int d = 0; d < Tile::kDim / 16; ++d) {
      outs[row * Tile::kDim + d * 16 + lane / 4] = out[d][j];
      outs[row * Tile::kDim + d * 16 + lane / 4 + 8] = out[d][2 + j];
    }
    if (lane < 4) pairs[row] = make_float2(base[j], sum[j]);
  }
  __syncthreads();
  // Of the block's first row among the partial results, whose numbers fit: kDecodeTickets bounds them.
  const unsigned first_place =
      (blockIdx.x * static_cast<unsigned>(shape.rows_per_head) + static_cast<unsigned>(first_row)) * splits;
  const auto per_split = static_cast<unsigned>(chunk);
  const int filled = max(static_cast<int>((static_cast<unsigned>(p.kv_len) + per_split - 1) / per_split), 1);
  // The warps' results merged and, by the key head's last block, the splits'.
  constexpr unsigned kPacks = Tile::kDim / 4;
  bool of_splits = false;
#pragma unroll 1
  for (;;) {
    const bool complete = of_splits || filled == 1;
#pragma unroll 1
    for (unsigned n = threadIdx.x; n < static_cast<unsigned>(rows) * kPacks; n += Tile::kThreads) {
      const unsigned row = n / kPacks;
      const unsigned d = n % kPacks * 4;
      const unsigned place = first_place + row * splits;
      const MergedRow merged =
          of_splits ? merge_splits<Tile>(partials, place, d, filled) : merge_warps<Tile>(outs, pairs, row, d);
      if (complete) {
        write_decoded<T>(p, shape, b, kv_head, first_row + static_cast<int>(row), static_cast<int>(d),
                         merged.value, merged.top, merged.total);
      } else {
        *reinterpret_cast<float4*>(partials.out + (place + blockIdx.y) * Tile::kDim + d) =
            make_float4(merged.value[0], merged.value[1], merged.value[2], merged.value[3]);
        if (d == 0) partials.base_sum[place + blockIdx.y] = make_float2(merged.top, merged.total);
      }
    }
    if (complete || !last_to_arrive(partials.tickets + head * shape.row_blocks + row_block, filled)) return;
    of_splits = true;
  }
}

template <class Tile>
cudaError_t launch_tile(const DecodeCall& call, const DecodeShape& shape, cudaStream_t stream) {
  const AttentionParams& p = call.params;
  const std::int64_t rows = shape.heads * shape.rows_per_head;
  if (shape.heads > 0x7fffffff || shape.row_blocks > 0xffff) return cudaErrorInvalidConfiguration;
  const int shared_bytes = Tile::shared_bytes(std::min(shape.rows_per_head, kDecodeRows));
  cudaError_t error = cudaFuncSetAttribute(decode_kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           Tile::shared_bytes(kDecodeRows));
  if (error != cudaSuccess) return error;
  // A multiprocessor changes its division of cache and shared memory only when it is empty, and so would not
  // take this kernel beside another that asks for much.
  error = cudaFuncSetAttribute(decode_kernel<Tile>, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  DecodePartials partials{};
  partials.out = static_cast<float*>(call.workspace);
  partials.tickets = call.tickets;
  if (shape.splits > 1)
    partials.base_sum = reinterpret_cast<float2*>(partials.out + rows * shape.splits * p.head_dim);
  const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.splits),
                  static_cast<unsigned>(shape.row_blocks));
  return launch_programmatic(decode_kernel<Tile>, grid, dim3(Tile::kThreads),
                             static_cast<std::size_t>(shared_bytes), stream, call.early, p, shape,
                             call.append, partials);
}

// Large: where blocks are few and the GPU grants its shared memory.
template <class Tile, class Large>
cudaError_t launch_decode(const DecodeCall& call, cudaStream_t stream) {
  const DecodeShape shape = decode_shape(call.params, call.sm_count);
  return decode_few_blocks(shape, call.sm_count) &&
                 Large::shared_bytes(kDecodeRows) <= call.block_shared_bytes
             ? launch_tile<Large>(call, shape, stream)
             : launch_tile<Tile>(call, shape, stream);
}

template <class Tile, class Large>
constexpr FlashRow decode_table_row(const char* name, DType dtype) {
  return {name,
          "up to 16 queries (decode): keys split over blocks, mma.sync, merged in order",
          Tile::kDim,
          dtype,
          80,
          Tile::shared_bytes(kDecodeRows),
          kDecodeMaxQueries,
          true,
          decode_workspace,
          nullptr,
          launch_decode<Tile, Large>,
          true};
}

}  // namespace attn::cuda
