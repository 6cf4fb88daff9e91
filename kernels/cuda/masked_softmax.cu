// Causal mask and softmax of materialised scores: a block a row.
#include <cmath>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/masked_softmax.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

constexpr int kPack = 4;

// The row is read twice, the second time from the cache. A chunk is written where f32 scores already read
// have lain: element j of 16 bits lies before score j.
template <typename T>
__global__ void softmax_kernel(const MaskedSoftmax args) {
  __shared__ float shared[kMaxWarps];
  const int step = static_cast<int>(blockDim.x) * kPack;
  const int first = static_cast<int>(threadIdx.x) * kPack;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    float* scores = args.scores + row * args.row_step;
    T* out = reinterpret_cast<T*>(scores);
    const int query = static_cast<int>(row % args.q_len);
    const int visible =
        args.causal ? max(min(query + 1 + args.kv_len - args.q_len, args.kv_len), 0) : args.kv_len;

    float top = -INFINITY;
    float sum = 0;
    for (int j = first; j < visible; j += step) {
      const auto s = load_pack<kPack>(scores + j);
      float best = top;
      for (int n = 0; n < kPack; ++n) best = j + n < visible ? fmaxf(best, s.at[n]) : best;
      if (best == -INFINITY) continue;
      sum *= expf(top - best);
      for (int n = 0; n < kPack; ++n) sum += j + n < visible ? expf(s.at[n] - best) : 0.0F;
      top = best;
    }
    const float maximum = reduce_block(top, shared, Largest());
    // Of a row without a finite score all is 0, as of one without a key. A NaN makes the sum NaN.
    const float base = maximum == -INFINITY ? 0.0F : maximum;
    const float total = reduce_block(sum * expf(top - base), shared, Sum());
    const float factor = total == 0.0F ? 0.0F : 1.0F / total;

    for (int begin = 0; begin < args.kv_len; begin += step) {
      const int j = begin + first;
      Pack<T, kPack> weights{};
      if (j < visible) {  // what the mask hides is not even read
        const auto s = load_pack<kPack>(scores + j);
        for (int n = 0; n < kPack; ++n)
          weights.at[n] = from_float<T>(j + n < visible ? expf(s.at[n] - base) * factor : 0.0F);
      }
      __syncthreads();
      if (j < args.kv_len) store_pack(out + j, weights);
    }
    if (args.lse != nullptr && threadIdx.x == 0)
      args.lse[row] = total == 0.0F ? -INFINITY : base + logf(total);
  }
}

template <typename T>
cudaError_t launch(const MaskedSoftmax& args, cudaStream_t stream) {
  softmax_kernel<T>
      <<<grid_for(args.rows), threads_for((args.kv_len + kPack - 1) / kPack, 512), 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t masked_softmax(const MaskedSoftmax& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  switch (args.dtype) {
    case DType::f32: return launch<float>(args, stream);
    case DType::f16: return launch<Half>(args, stream);
    case DType::bf16: return launch<BFloat>(args, stream);
    case DType::i32: break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace attn::cuda
