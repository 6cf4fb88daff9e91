// Reading alone: 16-byte loads, four of them in flight in each of 2048 threads of a multiprocessor.
#include "kernels/cuda/ceilings.h"

namespace attn::cuda {

namespace {

constexpr unsigned kThreads = 512;
constexpr int kBlocksPerSm = 4;
constexpr int kLoads = 4;  // all in the 32 registers that a thread then has

__device__ unsigned g_kept;  // written so rarely that it costs nothing; without it no load would remain

__device__ __forceinline__ unsigned folded(const uint4& value) {
  return value.x ^ value.y ^ value.z ^ value.w;
}

__global__ __launch_bounds__(kThreads, kBlocksPerSm) void read_kernel(const uint4* __restrict__ data,
                                                                      std::size_t count) {
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * kThreads;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  unsigned kept = 0;
  // All blocks walk side by side, so that the loads in flight at any moment are one stretch of memory.
  for (; i + (kLoads - 1) * threads < count; i += kLoads * threads) {
    uint4 values[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n) values[n] = __ldcs(data + i + n * threads);
#pragma unroll
    for (int n = 0; n < kLoads; ++n) kept ^= folded(values[n]);
  }
  for (; i < count; i += threads) kept ^= folded(__ldcs(data + i));
  if (kept == 0x9e3779b9U) g_kept = kept;
}

}  // namespace

cudaError_t read_all(const void* data, std::size_t bytes, int sms, cudaStream_t stream) {
  if (bytes < sizeof(uint4)) return cudaSuccess;
  read_kernel<<<static_cast<unsigned>(sms * kBlocksPerSm), kThreads, 0, stream>>>(
      static_cast<const uint4*>(data), bytes / sizeof(uint4));
  return cudaGetLastError();
}

}  // namespace attn::cuda
