// Random weights: a thread a pack of neighbours, bound by integer arithmetic.
#include <algorithm>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/random_fill.h"

namespace attn::cuda {

namespace {

constexpr unsigned kThreads = 256;

// As mix_bits() of lib/core/rng.h.
__device__ __forceinline__ std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// As near_normal() of lib/core/rng.h. The intrinsics are never fused into one rounding.
__device__ __forceinline__ float near_normal(std::uint64_t bits) {
  const auto low = static_cast<unsigned>(bits);
  const auto high = static_cast<unsigned>(bits >> 32);
  const int sum = static_cast<int>((low & 0xffffU) + (low >> 16) + (high & 0xffffU) + (high >> 16));
  return __fmul_rn(__fsub_rn(static_cast<float>(sum), 131069.5F), 2.6430e-05F);
}

// Blocks step over columns in x and over rows in y.
template <typename T, int N>
__global__ void fill_kernel(const RandomFill args) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= args.columns) return;
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const auto index = static_cast<std::uint64_t>(row * args.columns + column);
    Pack<T, N> values;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float normal = near_normal(mix_bits(args.base ^ (index + static_cast<unsigned>(n))));
      values.at[n] = from_float<T>(__fadd_rn(args.centre, __fmul_rn(args.scale, normal)));
    }
    store_pack(static_cast<T*>(args.out) + row * args.step + column, values);
  }
}

template <typename T, int N>
cudaError_t launch_packs(const RandomFill& args, cudaStream_t stream) {
  constexpr std::int64_t kGridHeight = 65535;
  const dim3 grid(static_cast<unsigned>((args.columns / N + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(args.rows, kGridHeight)));
  fill_kernel<T, N><<<grid, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const RandomFill& args, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T);
  if (fits_packs<kPack>(static_cast<const T*>(args.out), args.step, args.columns))
    return launch_packs<T, kPack>(args, stream);
  return launch_packs<T, 1>(args, stream);
}

}  // namespace

cudaError_t random_fill(const RandomFill& args, cudaStream_t stream) {
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  return for_element_type(args.dtype, [&](auto element) { return launch<decltype(element)>(args, stream); });
}

}  // namespace attn::cuda
