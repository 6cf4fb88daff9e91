// LayerNorm and RMSNorm: a block a row, read three times, of which two from the cache.
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

namespace {

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
      const auto w = load_pack<N>(weight + i);
      Pack<T, N> b{};
      if (bias != nullptr) b = load_pack<N>(bias + i);
      Pack<T, N> y;
      for (int n = 0; n < N; ++n) {
        const float scaled = (to_float(x.at[n]) - mean) * factor * to_float(w.at[n]);
        y.at[n] = from_float<T>(bias != nullptr ? scaled + to_float(b.at[n]) : scaled);
      }
      store_pack(out + i, y);
    }
  }
}

template <typename T>
cudaError_t launch(const Norm& args, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T);
  const auto fits = [&](const void* base, std::int64_t step) {
    return fits_packs<kPack>(static_cast<const T*>(base), step, args.size);
  };
  const bool packed = fits(args.in, args.in_step) && fits(args.out, args.out_step) && fits(args.weight, 0) &&
                      fits(args.bias, 0);
  if (packed) {
    norm_kernel<T, kPack><<<grid_for(args.rows), threads_for(args.size / kPack, 512), 0, stream>>>(args);
  } else {
    norm_kernel<T, 1><<<grid_for(args.rows), threads_for(args.size, 512), 0, stream>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t norm(const Norm& args, cudaStream_t stream) {
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
