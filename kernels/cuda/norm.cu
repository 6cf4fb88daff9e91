// LayerNorm and RMSNorm: a block a row, which is read once and kept in registers where it fits.
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

// x normed, of one pack.
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> scaled(const float (&x)[N], float mean, float factor, const T* weight,
                                             const T* bias) {
  const auto w = load_pack<N>(weight);
  Pack<T, N> b{};
  if (bias != nullptr) b = load_pack<N>(bias);
  Pack<T, N> y;
  for (int n = 0; n < N; ++n) {
    const float value = (x[n] - mean) * factor * to_float(w.at[n]);
    y.at[n] = from_float<T>(bias != nullptr ? value + to_float(b.at[n]) : value);
  }
  return y;
}

// Up to kPacks packs a thread; the last may lie beyond the row.
template <typename T, int N, int kPacks>
__global__ void registers_kernel(const Norm args) {
  __shared__ float shared[kMaxWarps];
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  const float size = static_cast<float>(args.size);
  const auto place = [&](int p) { return (static_cast<std::int64_t>(p) * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* in = static_cast<const T*>(args.in) + row * args.in_step;
    T* out = static_cast<T*>(args.out) + row * args.out_step;
    float x[kPacks][N];
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) < args.size) {
        const auto pack = load_pack<N>(in + place(p));
        for (int n = 0; n < N; ++n) x[p][n] = to_float(pack.at[n]);
      } else {
        for (int n = 0; n < N; ++n) x[p][n] = 0;
      }
      for (int n = 0; n < N; ++n) sum += x[p][n];
    }
    const float mean = args.centred ? reduce_block(sum, shared, Sum()) / size : 0.0F;
    float squares = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) >= args.size) continue;
      for (int n = 0; n < N; ++n) squares += (x[p][n] - mean) * (x[p][n] - mean);
    }
    const float factor = 1.0F / sqrtf(reduce_block(squares, shared, Sum()) / size + args.eps);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t i = place(p);
      if (i >= args.size) continue;
      store_pack(out + i, scaled<T, N>(x[p], mean, factor, weight + i, bias != nullptr ? bias + i : nullptr));
    }
  }
}

// For rows that do not fit registers, or cannot be read in packs: read three times, of which two from the
// cache.
template <typename T, int N>
__global__ void norm_kernel(const Norm args) {
  __shared__ float shared[kMaxWarps];
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  const float size = static_cast<float>(args.size);
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * N;
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * N;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* in = static_cast<const T*>(args.in) + row * args.in_step;
    T* out = static_cast<T*>(args.out) + row * args.out_step;
    float mean = 0;
    if (args.centred) {
      float sum = 0;
      for (std::int64_t i = first; i < args.size; i += step) {
        const auto x = load_pack<N>(in + i);
        for (int n = 0; n < N; ++n) sum += to_float(x.at[n]);
      }
      mean = reduce_block(sum, shared, Sum()) / size;
    }
    float squares = 0;
    for (std::int64_t i = first; i < args.size; i += step) {
      const auto x = load_pack<N>(in + i);
      for (int n = 0; n < N; ++n) {
        const float deviation = to_float(x.at[n]) - mean;
        squares += deviation * deviation;
      }
    }
    const float factor = 1.0F / sqrtf(reduce_block(squares, shared, Sum()) / size + args.eps);
    for (std::int64_t i = first; i < args.size; i += step) {
      const auto x = load_pack<N>(in + i);
      float values[N];
      for (int n = 0; n < N; ++n) values[n] = to_float(x.at[n]);
      store_pack(out + i,
                 scaled<T, N>(values, mean, factor, weight + i, bias != nullptr ? bias + i : nullptr));
    }
  }
}

template <typename T, int N, int kPacks>
cudaError_t launch_registers(const Norm& args, cudaStream_t stream) {
  const std::int64_t threads = (args.size + N * kPacks - 1) / (N * kPacks);
  registers_kernel<T, N, kPacks><<<grid_for(args.rows), threads_for(threads, 512), 0, stream>>>(args);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const Norm& args, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T);
  const auto fits = [&](const void* base, std::int64_t step) {
    return fits_packs<kPack>(static_cast<const T*>(base), step, args.size);
  };
  const bool packed = fits(args.in, args.in_step) && fits(args.out, args.out_step) && fits(args.weight, 0) &&
                      fits(args.bias, 0);
  if (!packed) {
    norm_kernel<T, 1><<<grid_for(args.rows), threads_for(args.size, 512), 0, stream>>>(args);
    return cudaGetLastError();
  }
  const std::int64_t packs = args.size / kPack;
  if (packs <= 512) return launch_registers<T, kPack, 1>(args, stream);
  if (packs <= 512 * 2) return launch_registers<T, kPack, 2>(args, stream);
  if (packs <= 512 * 4) return launch_registers<T, kPack, 4>(args, stream);
  norm_kernel<T, kPack><<<grid_for(args.rows), 512, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t norm(const Norm& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  return for_element_type(args.dtype, [&](auto element) { return launch<decltype(element)>(args, stream); });
}

}  // namespace attn::cuda
