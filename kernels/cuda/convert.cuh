// Elements of the storage types as float and back, alone and in packs of up to 16 bytes.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace attn::cuda {

using Half = __half;
using BFloat = __nv_bfloat16;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(BFloat x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);  // round to nearest, ties to even
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ Half from_float<Half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ BFloat from_float<BFloat>(float x) {
  return __float2bfloat16_rn(x);
}

// N neighbours that are loaded and stored as one access.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* place) {
  return *reinterpret_cast<const Pack<T, N>*>(place);
}
template <typename T, int N>
__device__ __forceinline__ void store_pack(T* place, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(place) = pack;
}

// Whether rows of `size` elements at `base`, `step` apart, can be read in packs of N.
template <int N, typename T>
bool fits_packs(const T* base, std::int64_t step, std::int64_t size) {
  return reinterpret_cast<std::uintptr_t>(base) % (N * sizeof(T)) == 0 && step % N == 0 && size % N == 0;
}

}  // namespace attn::cuda
