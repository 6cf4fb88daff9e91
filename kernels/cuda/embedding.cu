// Token and position embedding: a block a token.
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/launch.h"

namespace attn::cuda {

namespace {

template <typename T, int N>
__global__ void embed_kernel(const Embedding args) {
  for (std::int64_t n = blockIdx.x; n < args.batch * args.q_len; n += gridDim.x) {
    const std::int64_t b = n / args.q_len;
    const std::int64_t t = n % args.q_len;
    const T* token = static_cast<const T*>(args.tokens) + args.ids[b * args.ids_step + t] * args.token_step;
    T* out = static_cast<T*>(args.out) + b * args.out_batch + t * args.out_token;
    const T* position = nullptr;
    if (args.positions != nullptr)
      position = static_cast<const T*>(args.positions) + (*args.past_len + t) * args.position_step;
    for (std::int64_t i = threadIdx.x * N; i < args.hidden; i += blockDim.x * N) {
      auto x = load_pack<N>(token + i);
      if (position != nullptr) {
        const auto p = load_pack<N>(position + i);
        for (int k = 0; k < N; ++k) x.at[k] = from_float<T>(to_float(x.at[k]) + to_float(p.at[k]));
      }
      store_pack(out + i, x);
    }
  }
}

template <typename T>
cudaError_t launch(const Embedding& args, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T);
  const auto fits = [&](const void* base, std::int64_t step) {
    return fits_packs<kPack>(static_cast<const T*>(base), step, args.hidden);
  };
  const unsigned grid = grid_for(args.batch * args.q_len);
  if (fits(args.tokens, args.token_step) && fits(args.positions, args.position_step) &&
      fits(args.out, args.out_batch) && fits(args.out, args.out_token)) {
    embed_kernel<T, kPack><<<grid, threads_for(args.hidden / kPack, 512), 0, stream>>>(args);
  } else {
    embed_kernel<T, 1><<<grid, threads_for(args.hidden, 512), 0, stream>>>(args);
  }
  return cudaGetLastError();
}

__global__ void advance_kernel(std::int32_t* past_len, std::int32_t count) { *past_len += count; }

}  // namespace

cudaError_t embed(const Embedding& args, cudaStream_t stream) {
  if (args.batch * args.q_len == 0) return cudaSuccess;
  return for_element_type(args.dtype, [&](auto element) { return launch<decltype(element)>(args, stream); });
}

cudaError_t advance(std::int32_t* past_len, std::int32_t count, cudaStream_t stream) {
  advance_kernel<<<1, 1, 0, stream>>>(past_len, count);
  return cudaGetLastError();
}

}  // namespace attn::cuda
