// Attention by its definition: a block a query, a thread a key, then a thread a dimension; all in double.
#include <cmath>

#include "kernels/cuda/attention_reference.h"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/launch.h"

namespace attn::cuda {

namespace {

constexpr int kThreads = 128;

// Chunks of kThreads keys; sums so far are put right whenever the maximum rises.
template <typename T>
__global__ void __launch_bounds__(kThreads, 8) reference_kernel(const AttentionParams args) {
  const AttentionParams p = with_length(args);
  extern __shared__ double sums[];  // [head_dim]
  __shared__ double scores[kThreads];
  const std::int64_t rows = static_cast<std::int64_t>(p.batch) * p.q_heads * p.q_len;
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int i = static_cast<int>(row % p.q_len);
    const int h = static_cast<int>(row / p.q_len % p.q_heads);
    const int b = static_cast<int>(row / p.q_len / p.q_heads);
    const int kv_head = h / (p.q_heads / p.kv_heads);
    const int visible = visible_keys(p, i);
    const T* q = row_of<T>(p.q, p.q_stride, b, i, h);
    for (int d = thread; d < p.head_dim; d += kThreads) sums[d] = 0;
    double maximum = -INFINITY;
    double denominator = 0;
    for (int begin = 0; begin < visible; begin += kThreads) {
      const int count = min(kThreads, visible - begin);
      if (thread < count) {
        const T* k = row_of<T>(p.k, p.k_stride, b, begin + thread, kv_head);
        double dot = 0;
        for (int d = 0; d < p.head_dim; ++d)
          dot += static_cast<double>(to_float(q[d])) * static_cast<double>(to_float(k[d]));
        scores[thread] = dot * static_cast<double>(p.scale);
      }
      __syncthreads();
      double top = maximum;
      for (int j = 0; j < count; ++j) {
        if (!(scores[j] <= top)) top = scores[j];  // a NaN becomes the maximum, and all that follows
      }
      const double factor = begin == 0 ? 0.0 : exp(maximum - top);
      maximum = top;
      __syncthreads();
      if (thread < count) scores[thread] = exp(scores[thread] - top);
      __syncthreads();
      denominator *= factor;
      for (int j = 0; j < count; ++j) denominator += scores[j];
      for (int d = thread; d < p.head_dim; d += kThreads) {
        double sum = sums[d] * factor;
        for (int j = 0; j < count; ++j)
          sum +=
              scores[j] * static_cast<double>(to_float(row_of<T>(p.v, p.v_stride, b, begin + j, kv_head)[d]));
        sums[d] = sum;
      }
      __syncthreads();
    }
    T* out = row_of<T>(p.out, p.out_stride, b, i, h);
    for (int d = thread; d < p.head_dim; d += kThreads)
      out[d] = from_float<T>(visible == 0 ? 0.0F : static_cast<float>(sums[d] / denominator));
    if (p.lse != nullptr && thread == 0) {
      p.lse[lse_index(p, b, i, h)] =
          visible == 0 ? -INFINITY : static_cast<float>(maximum + log(denominator));
    }
    __syncthreads();
  }
}

template <typename T>
cudaError_t launch(const AttentionParams& p, cudaStream_t stream) {
  const std::int64_t rows = static_cast<std::int64_t>(p.batch) * p.q_heads * p.q_len;
  reference_kernel<T>
      <<<grid_for(rows), kThreads, static_cast<std::size_t>(p.head_dim) * sizeof(double), stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t attention_reference(const AttentionParams& params, cudaStream_t stream) {
  return for_element_type(params.dtype,
                          [&](auto element) { return launch<decltype(element)>(params, stream); });
}

}  // namespace attn::cuda
