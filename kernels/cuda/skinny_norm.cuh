// LayerNorm and RMSNorm of the few rows that a block multiplies, in shared memory.
#pragma once

#include <cmath>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/skinny_plan.h"

namespace attn::cuda::skinny {

__device__ __forceinline__ void consumers_meet() {
  asm volatile("bar.sync 1, %0;\n" ::"n"(kConsumerThreads) : "memory");
}

// The norm's weights and biases, [2][inner], asked for: they are read when the input is there.
template <typename T>
__device__ __forceinline__ void ask_for_norm(const SkinnyProduct& p, const SkinnyPart& part, char* room) {
  const int packs = p.inner / 8;
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x); n < packs; n += kConsumerThreads) {
    copy_async(room + n * 16, static_cast<const uint4*>(part.norm_weight) + n, true);
    if (part.norm_bias != nullptr)
      copy_async(room + (packs + n) * 16, static_cast<const uint4*>(part.norm_bias) + n, true);
  }
  commit_copies();
}

__device__ __forceinline__ float sum_of_eight(const float (&x)[8]) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// The normed input, rows `step` bytes apart: a warp a row, so that rows do not influence each other. `norm`:
// what ask_for_norm() has brought. Code is kept small: it runs once a launch, and instructions come by the
// same way as the weights.
template <typename T>
__device__ __forceinline__ void norm_input(const SkinnyProduct& p, bool biased, const char* norm, char* input,
                                           int step) {
  const int row = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int packs = p.inner / 8;
  const float size = static_cast<float>(p.inner);
  char* kept = input + row * step;
  if (row < p.rows) {
    const uint4* source = reinterpret_cast<const uint4*>(static_cast<const T*>(p.in) + row * p.in_step);
    // All is asked for at once: each answer takes microseconds while weights stream in.
#pragma unroll 2
    for (int n = lane; n < packs; n += 32) copy_async(kept + n * 16, source + n, true);
  }
  commit_copies();
  wait_copies<0>();  // a lane reads what it has asked for itself,
  consumers_meet();  // and of the norm what others have
  if (row < p.rows) {
    const auto eight = [&](int n, float mean, float(&x)[8]) {
      const uint4 pack = *reinterpret_cast<const uint4*>(kept + n * 16);
      const T* values = reinterpret_cast<const T*>(&pack);
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e] = to_float(values[e]) - mean;
    };
    float mean = 0;
    if (p.centred) {
      float sum = 0;
#pragma unroll 2
      for (int n = lane; n < packs; n += 32) {
        float x[8];
        eight(n, 0, x);
        sum += sum_of_eight(x);
      }
      mean = reduce_warp(sum, Sum()) / size;
    }
    float squares = 0;
#pragma unroll 2
    for (int n = lane; n < packs; n += 32) {
      float x[8];
      eight(n, mean, x);
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e] *= x[e];
      squares += sum_of_eight(x);
    }
    const float factor = 1.0F / sqrtf(reduce_warp(squares, Sum()) / size + p.eps);
#pragma unroll 2
    for (int n = lane; n < packs; n += 32) {
      const uint4 weights = *reinterpret_cast<const uint4*>(norm + n * 16);
      uint4 biases = {0, 0, 0, 0};
      if (biased) biases = *reinterpret_cast<const uint4*>(norm + (packs + n) * 16);
      const T* w = reinterpret_cast<const T*>(&weights);
      const T* b = reinterpret_cast<const T*>(&biases);
      float x[8];
      eight(n, mean, x);
      uint4 pack;
      T* y = reinterpret_cast<T*>(&pack);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float scaled = x[e] * factor * to_float(w[e]);
        y[e] = from_float<T>(biased ? scaled + to_float(b[e]) : scaled);
      }
      *reinterpret_cast<uint4*>(kept + n * 16) = pack;
    }
  }
  consumers_meet();
}

}  // namespace attn::cuda::skinny
