// Causal mask and softmax of materialised scores: a warp or a block a row, which is read once and kept in
// registers where it fits.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/masked_softmax.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

constexpr int kPack = 8;  // of neighbours that a thread reads and writes together

// Keys that the row's query sees, at most kv_len.
__device__ __forceinline__ int visible_of(const MaskedSoftmax& args, std::int64_t row) {
  const int keys = args.past_len == nullptr ? args.kv_len : min(*args.past_len + args.q_len, args.kv_len);
  if (!args.causal) return keys;
  // The short division where it is enough: one is done for every row by every thread.
  const int query =
      args.rows <= INT32_MAX ? static_cast<int>(row) % args.q_len : static_cast<int>(row % args.q_len);
  return max(min(query + 1 + keys - args.q_len, keys), 0);
}

// What follows from a row's maximum and its sum of exp(score - base). Of a row without a finite score all is
// 0, as of one without a key. A NaN makes the sum NaN.
__device__ __forceinline__ float base_of(float maximum) { return maximum == -INFINITY ? 0.0F : maximum; }
__device__ __forceinline__ float factor_of(float total) { return total == 0.0F ? 0.0F : 1.0F / total; }
__device__ __forceinline__ void write_lse(const MaskedSoftmax& args, std::int64_t row, float base,
                                          float total) {
  if (args.lse != nullptr) args.lse[row] = total == 0.0F ? -INFINITY : base + logf(total);
}

// A row is kThreads threads with kPacks packs each: 32 threads are a warp of a block of several rows, more
// are a block. Every score of a row is read before anything is written where it lay: the reductions stand
// between.
template <typename S, typename T, int kThreads, int kPacks>
__global__ void registers_kernel(const MaskedSoftmax args) {
  __shared__ float shared[kMaxWarps];
  constexpr bool kWarp = kThreads == 32;
  const auto reduce = [&](float value, auto operation) {
    if constexpr (kWarp)
      return reduce_warp(value, operation);
    else
      return reduce_block(value, shared, operation);
  };
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t rows_at_once =
      static_cast<std::int64_t>(gridDim.x) * (kWarp ? static_cast<int>(blockDim.y) : 1);
  const std::int64_t first_row =
      kWarp ? static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y : blockIdx.x;
  for (std::int64_t row = first_row; row < args.rows; row += rows_at_once) {
    S* scores = static_cast<S*>(args.scores) + row * args.row_step;
    T* out = reinterpret_cast<T*>(scores);
    const int visible = visible_of(args, row);

    float s[kPacks][kPack];
    float top = -INFINITY;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int j = (p * kThreads + thread) * kPack;
      if (j < visible) {  // what the mask hides is not even read
        const auto pack = load_pack<kPack>(scores + j);
        for (int n = 0; n < kPack; ++n) s[p][n] = j + n < visible ? to_float(pack.at[n]) : -INFINITY;
      } else {
        for (int n = 0; n < kPack; ++n) s[p][n] = -INFINITY;
      }
      for (int n = 0; n < kPack; ++n) top = fmaxf(top, s[p][n]);
    }
    const float base = base_of(reduce(top, Largest()));
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      for (int n = 0; n < kPack; ++n) {
        s[p][n] = expf(s[p][n] - base);
        sum += s[p][n];
      }
    }
    const float total = reduce(sum, Sum());
    const float factor = factor_of(total);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int j = (p * kThreads + thread) * kPack;
      if (j >= args.kv_len) continue;
      Pack<T, kPack> weights;
      for (int n = 0; n < kPack; ++n) weights.at[n] = from_float<T>(s[p][n] * factor);
      store_pack(out + j, weights);
    }
    if (thread == 0) write_lse(args, row, base, total);
  }
}

// The row is read twice, the second time from the cache. A chunk is written where scores already read have
// lain: element j is not longer than score j, so it ends before the next chunk of scores begins.
template <typename S, typename T>
__global__ void chunks_kernel(const MaskedSoftmax args) {
  __shared__ float shared[kMaxWarps];
  const int step = static_cast<int>(blockDim.x) * kPack;
  const int first = static_cast<int>(threadIdx.x) * kPack;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    S* scores = static_cast<S*>(args.scores) + row * args.row_step;
    T* out = reinterpret_cast<T*>(scores);
    const int visible = visible_of(args, row);

    float top = -INFINITY;
    float sum = 0;
    for (int j = first; j < visible; j += step) {
      const auto s = load_pack<kPack>(scores + j);
      float best = top;
      for (int n = 0; n < kPack; ++n) best = j + n < visible ? fmaxf(best, to_float(s.at[n])) : best;
      if (best == -INFINITY) {  // NaN alone must not be lost
        for (int n = 0; n < kPack; ++n) sum += j + n < visible ? expf(to_float(s.at[n])) : 0.0F;
        continue;
      }
      sum *= expf(top - best);
      for (int n = 0; n < kPack; ++n) sum += j + n < visible ? expf(to_float(s.at[n]) - best) : 0.0F;
      top = best;
    }
    const float base = base_of(reduce_block(top, shared, Largest()));
    const float total = reduce_block(top == -INFINITY ? sum : sum * expf(top - base), shared, Sum());
    const float factor = factor_of(total);

    for (int begin = 0; begin < args.kv_len; begin += step) {
      const int j = begin + first;
      Pack<T, kPack> weights{};
      if (j < visible) {
        const auto s = load_pack<kPack>(scores + j);
        for (int n = 0; n < kPack; ++n)
          weights.at[n] = from_float<T>(j + n < visible ? expf(to_float(s.at[n]) - base) * factor : 0.0F);
      }
      __syncthreads();
      if (j < args.kv_len) store_pack(out + j, weights);
    }
    if (threadIdx.x == 0) write_lse(args, row, base, total);
  }
}

template <typename S, typename T, int kThreads, int kPacks>
cudaError_t launch_registers(const MaskedSoftmax& args, cudaStream_t stream) {
  constexpr unsigned kRows = kThreads == 32 ? 4 : 1;  // of a block
  registers_kernel<S, T, kThreads, kPacks>
      <<<grid_for((args.rows + kRows - 1) / kRows), dim3(kThreads, kRows), 0, stream>>>(args);
  return cudaGetLastError();
}

template <typename S, typename T>
cudaError_t launch(const MaskedSoftmax& args, cudaStream_t stream) {
  const int packs = (args.kv_len + kPack - 1) / kPack;
  if (packs <= 32) return launch_registers<S, T, 32, 1>(args, stream);
  if (packs <= 32 * 4) return launch_registers<S, T, 32, 4>(args, stream);
  if (packs <= 128 * 2) return launch_registers<S, T, 128, 2>(args, stream);
  if (packs <= 128 * 3) return launch_registers<S, T, 128, 3>(args, stream);
  if (packs <= 256 * 2) return launch_registers<S, T, 256, 2>(args, stream);
  if (packs <= 256 * 4) return launch_registers<S, T, 256, 4>(args, stream);
  chunks_kernel<S, T><<<grid_for(args.rows), 512, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t masked_softmax(const MaskedSoftmax& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const bool same = args.score_dtype == args.dtype;
  if (!same && args.score_dtype != DType::f32) return cudaErrorInvalidValue;
  switch (args.dtype) {
    case DType::f32: return launch<float, float>(args, stream);
    case DType::f16: return same ? launch<Half, Half>(args, stream) : launch<float, Half>(args, stream);
    case DType::bf16:
      return same ? launch<BFloat, BFloat>(args, stream) : launch<float, BFloat>(args, stream);
    case DType::i32: break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace attn::cuda
