// Negative log-likelihood of target tokens: a block a row.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/loss.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

__global__ void loss_kernel(const TokenLosses args) {
  __shared__ float shared[kMaxWarps];
  __shared__ double shared_sum[kMaxWarps];
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const float* logits = args.logits + row * args.logits_step;
    const std::int32_t target = args.targets[row];
    if (target < 0) {
      if (threadIdx.x == 0) args.losses[row] = 0;
      continue;
    }
    float top = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < args.vocab; i += blockDim.x) top = fmaxf(top, logits[i]);
    top = reduce_block(top, shared, Largest());
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < args.vocab; i += blockDim.x) {
      const float logit = logits[i];
      sum += static_cast<double>(expf(logit - top) + (logit - logit));  // + 0, or NaN where it is not finite
    }
    sum = reduce_block(sum, shared_sum, Sum());
    if (threadIdx.x == 0)
      args.losses[row] = log(sum) - (static_cast<double>(logits[target]) - static_cast<double>(top));
  }
}

}  // namespace

cudaError_t token_losses(const TokenLosses& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  loss_kernel<<<grid_for(args.rows), threads_for(args.vocab, 512), 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace attn::cuda
