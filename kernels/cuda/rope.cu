// Rotary positions and the append to the cache: a block a token, a thread a pack of neighbours.
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/element_type.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rotate.cuh"

namespace attn::cuda {

namespace {

// Dimensions [d, d + N) of one head: with its partner when it turns, alone when it does not, nothing when it
// is the partner of an earlier one. `target` may be `source`.
template <typename T, int N>
__device__ void turn(const T* source, T* target, int d, const float* cos, const float* sin, int rotary_dims) {
  const int half = rotary_dims / 2;
  if (d >= rotary_dims) {
    if (target != source) store_pack(target + d, load_pack<N>(source + d));
    return;
  }
  if (d >= half) return;
  const auto a = load_pack<N>(source + d);
  const auto b = load_pack<N>(source + d + half);
  Pack<T, N> first;
  Pack<T, N> second;
  for (int n = 0; n < N; ++n) {
    const TurnedPair turned = turn_pair(to_float(a.at[n]), to_float(b.at[n]), cos[d + n], sin[d + n]);
    first.at[n] = from_float<T>(turned.first);
    second.at[n] = from_float<T>(turned.second);
  }
  store_pack(target + d, first);
  store_pack(target + d + half, second);
}

template <typename T, int N>
__global__ void rope_kernel(const RopeAppend args) {
  const std::int64_t past = *args.past_len;
  const int packs = args.head_dim / N;
  const int work = (args.q_heads + 2 * args.kv_heads) * packs;
  for (std::int64_t token = blockIdx.x; token < static_cast<std::int64_t>(args.batch) * args.q_len;
       token += gridDim.x) {
    const std::int64_t b = token / args.q_len;
    const std::int64_t t = token % args.q_len;
    const std::int64_t place = past + t;
    T* row = static_cast<T*>(args.qkv) + b * args.qkv_batch + t * args.qkv_token;
    const float* cos = args.cos + place * args.table_step;
    const float* sin = args.sin + place * args.table_step;
    for (int n = static_cast<int>(threadIdx.x); n < work; n += static_cast<int>(blockDim.x)) {
      const int head = n / packs;
      const int d = n % packs * N;
      T* source = row + head * args.qkv_head;
      if (head < args.q_heads) {
        turn<T, N>(source, source, d, cos, sin, args.rotary_dims);
      } else if (head < args.q_heads + args.kv_heads) {
        T* key = static_cast<T*>(args.k_cache) + b * args.k_batch + place * args.k_token +
                 (head - args.q_heads) * args.k_head;
        turn<T, N>(source, key, d, cos, sin, args.rotary_dims);
      } else {
        T* value = static_cast<T*>(args.v_cache) + b * args.v_batch + place * args.v_token +
                   (head - args.q_heads - args.kv_heads) * args.v_head;
        store_pack(value + d, load_pack<N>(source + d));
      }
    }
  }
}

template <typename T, int N>
bool in_packs(const RopeAppend& args) {
  const auto fits = [&](const void* base, std::int64_t batch, std::int64_t token, std::int64_t head) {
    const T* start = static_cast<const T*>(base);
    return fits_packs<N>(start, batch, args.head_dim) && fits_packs<N>(start, token, args.rotary_dims / 2) &&
           fits_packs<N>(start, head, args.head_dim);
  };
  return fits(args.qkv, args.qkv_batch, args.qkv_token, args.qkv_head) &&
         fits(args.k_cache, args.k_batch, args.k_token, args.k_head) &&
         fits(args.v_cache, args.v_batch, args.v_token, args.v_head);
}

template <typename T, int N>
cudaError_t launch_packs(const RopeAppend& args, cudaStream_t stream) {
  const std::int64_t work = static_cast<std::int64_t>(args.q_heads + 2 * args.kv_heads) * (args.head_dim / N);
  const unsigned grid = grid_for(static_cast<std::int64_t>(args.batch) * args.q_len);
  rope_kernel<T, N><<<grid, threads_for(work, 512), 0, stream>>>(args);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const RopeAppend& args, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T);
  if (in_packs<T, kPack>(args)) return launch_packs<T, kPack>(args, stream);
  if (in_packs<T, 2>(args)) return launch_packs<T, 2>(args, stream);
  return launch_packs<T, 1>(args, stream);
}

}  // namespace

cudaError_t rope_append(const RopeAppend& args, cudaStream_t stream) {
  if (args.batch == 0 || args.q_len == 0) return cudaSuccess;
  return for_element_type(args.dtype, [&](auto element) { return launch<decltype(element)>(args, stream); });
}

}  // namespace attn::cuda
