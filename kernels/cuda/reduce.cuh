// Sums and maxima over a warp and a block, in a fixed order.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace attn::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffU;
inline constexpr int kMaxWarps = 32;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// fmaxf's rule: NaN loses.
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a > b ? a : b; }
};

template <typename T, typename Operation>
__device__ __forceinline__ T reduce_warp(T value, Operation operation) {
  for (int step = 16; step > 0; step /= 2) value = operation(value, __shfl_xor_sync(kWholeWarp, value, step));
  return value;
}

// The result in every thread. `shared` has room for kMaxWarps values; blocks are whole warps. Begins and ends
// so that it may be called again at once with the same room.
template <typename T, typename Operation>
__device__ __forceinline__ T reduce_block(T value, T* shared, Operation operation) {
  const unsigned warps = blockDim.x / 32;
  value = reduce_warp(value, operation);
  if (warps == 1) return value;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  T total = shared[0];
  for (unsigned warp = 1; warp < warps; ++warp) total = operation(total, shared[warp]);
  return total;
}

}  // namespace attn::cuda
