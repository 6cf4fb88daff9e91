// Flash attention without tensor cores: a block 32 queries of one head, four threads a query.
#include <cmath>

#include "kernels/cuda/attention_flash_simt.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kRows = 32;  // queries of a tile
constexpr int kKeys = 32;  // keys of a tile
constexpr int kScoreStep = kKeys + 1;
constexpr int kLanes = kThreads / kRows;  // threads of a query in softmax and sums

std::size_t shared_bytes(int head_dim) {
  return static_cast<std::size_t>((kRows + kKeys) * (head_dim + 1) + kRows * kScoreStep) * sizeof(float);
}

// tile[r][d] as f32, rows head_dim + 1 apart so that a column lies in different banks; rows past `count` are
// 0.
template <typename T>
__device__ void load_tile(float* tile, const T* base, std::int64_t step, int count, int head_dim) {
  for (int n = static_cast<int>(threadIdx.x); n < kKeys * head_dim; n += kThreads) {
    const int r = n / head_dim;
    const int d = n % head_dim;
    tile[r * (head_dim + 1) + d] = r < count ? to_float(base[r * step + d]) : 0.0F;
  }
}

// scores[r][c] = q[r] . k[c]: a thread 2 queries and 4 keys.
__device__ void score_tile(const float* q, const float* k, int head_dim, float scale, float* scores) {
  const int first_row = static_cast<int>(threadIdx.x) / 8 * 2;
  const int first_key = static_cast<int>(threadIdx.x) % 8;
  const int step = head_dim + 1;
  float sums[2][4] = {};
  for (int d = 0; d < head_dim; ++d) {
    const float a = q[first_row * step + d];
    const float b = q[(first_row + 1) * step + d];
    for (int c = 0; c < 4; ++c) {
      const float x = k[(first_key + 8 * c) * step + d];
      sums[0][c] += a * x;
      sums[1][c] += b * x;
    }
  }
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 4; ++c) scores[(first_row + r) * kScoreStep + first_key + 8 * c] = sums[r][c] * scale;
}

// kMaxDim: at least head_dim; a thread sums dimensions lane, lane + 4, ... of its query.
template <typename T, int kMaxDim>
__global__ void __launch_bounds__(kThreads) flash_simt_kernel(const AttentionParams args) {
  const AttentionParams p = with_length(args);
  extern __shared__ float shared[];
  const int head_dim = p.head_dim;
  float* q_tile = shared;
  float* kv_tile = q_tile + kRows * (head_dim + 1);  // keys, then values
  float* scores = kv_tile + kKeys * (head_dim + 1);

  const int tiles = (p.q_len + kRows - 1) / kRows;
  const std::int64_t heads = static_cast<std::int64_t>(p.batch) * p.q_heads;
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (std::int64_t task = blockIdx.x; task < tiles * heads; task += gridDim.x) {
    const int first = (tiles - 1 - static_cast<int>(task / heads)) * kRows;  // longest first
    const auto b = task % heads / p.q_heads;
    const auto h = task % heads % p.q_heads;
    const auto kv_head = h / (p.q_heads / p.kv_heads);
    const int count = min(kRows, p.q_len - first);
    const int limit = row < count ? visible_keys(p, first + row) : 0;
    const int key_end = visible_keys(p, first + count - 1);
    load_tile(q_tile, row_of<T>(p.q, p.q_stride, b, first, h), p.q_stride.token, count, head_dim);

    float maximum = -INFINITY;
    float denominator = 0;
    float sums[kMaxDim / kLanes] = {};
    for (int begin = 0; begin < key_end; begin += kKeys) {
      const int keys = min(kKeys, key_end - begin);
      load_tile(kv_tile, row_of<T>(p.k, p.k_stride, b, begin, kv_head), p.k_stride.token, keys, head_dim);
      __syncthreads();
      score_tile(q_tile, kv_tile, head_dim, p.scale, scores);
      __syncthreads();
      load_tile(kv_tile, row_of<T>(p.v, p.v_stride, b, begin, kv_head), p.v_stride.token, keys, head_dim);

      float top = maximum;
      for (int j = lane; j < keys; j += kLanes)
        if (begin + j < limit) top = fmaxf(top, scores[row * kScoreStep + j]);
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 2));
      const float base = top == -INFINITY ? 0.0F : top;
      const float factor = expf(maximum - base);
      maximum = top;
      float part = 0;
      for (int j = lane; j < kKeys; j += kLanes) {
        const float weight = j < keys && begin + j < limit ? expf(scores[row * kScoreStep + j] - base) : 0.0F;
        scores[row * kScoreStep + j] = weight;
        part += weight;
      }
      denominator = denominator * factor + part;
#pragma unroll
      for (int n = 0; n < kMaxDim / kLanes; ++n) sums[n] *= factor;
      __syncthreads();
      for (int j = 0; j < keys; ++j) {
        const float weight = scores[row * kScoreStep + j];
#pragma unroll
        for (int n = 0; n < kMaxDim / kLanes; ++n) {
          const int d = lane + n * kLanes;
          if (d < head_dim) sums[n] += weight * kv_tile[j * (head_dim + 1) + d];
        }
      }
      __syncthreads();
    }
    denominator += __shfl_xor_sync(kWholeWarp, denominator, 1);
    denominator += __shfl_xor_sync(kWholeWarp, denominator, 2);
    if (row < count) {
      const float factor = denominator == 0.0F ? 0.0F : 1.0F / denominator;
      T* out = row_of<T>(p.out, p.out_stride, b, first + row, h);
#pragma unroll
      for (int n = 0; n < kMaxDim / kLanes; ++n) {
        const int d = lane + n * kLanes;
        if (d < head_dim) out[d] = from_float<T>(sums[n] * factor);
      }
      if (p.lse != nullptr && lane == 0) {
        p.lse[lse_index(p, b, first + row, h)] =
            denominator == 0.0F ? -INFINITY : maximum + logf(denominator);
      }
    }
    __syncthreads();
  }
}

template <typename T, int kMaxDim>
cudaError_t launch_dim(const AttentionParams& p, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes(p.head_dim);
  const cudaError_t raised = cudaFuncSetAttribute(
      flash_simt_kernel<T, kMaxDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (raised != cudaSuccess) return raised;
  const std::int64_t tiles = (p.q_len + kRows - 1) / kRows;
  flash_simt_kernel<T, kMaxDim><<<grid_for(tiles * p.batch * p.q_heads), kThreads, bytes, stream>>>(p);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const AttentionParams& p, cudaStream_t stream) {
  if (p.head_dim <= 64) return launch_dim<T, 64>(p, stream);
  if (p.head_dim <= 128) return launch_dim<T, 128>(p, stream);
  if (p.head_dim <= kSimtMaxHeadDim) return launch_dim<T, kSimtMaxHeadDim>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t attention_flash_simt(const AttentionParams& params, cudaStream_t stream) {
  return for_element_type(params.dtype,
                          [&](auto element) { return launch<decltype(element)>(params, stream); });
}

}  // namespace attn::cuda
