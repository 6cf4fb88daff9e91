// The order of a row's tokens, the larger logit first, then the lower id: its keys, and what a block of 1024
// threads needs to find a place in it.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/reduce.cuh"

namespace attn::cuda {

inline constexpr int kRowThreads = 1024;
inline constexpr int kPlaces = 2 * kRowThreads;  // of the list, and bins: two a thread

// Larger logits have larger keys, NaN the least; never 0.
__device__ inline std::uint32_t logit_key(float logit) {
  if (isnan(logit)) return 1;
  if (logit == 0.0F) logit = 0.0F;  // -0 equals 0
  const std::uint32_t bits = __float_as_uint(logit);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline float logit_of(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000U) != 0 ? key ^ 0x80000000U : ~key);
}

// Earlier tokens have larger keys; never 0.
__device__ inline std::uint64_t token_key(float logit, std::int32_t id) {
  return static_cast<std::uint64_t>(logit_key(logit)) << 32 | (0xffffffffU - static_cast<std::uint32_t>(id));
}
__device__ inline std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(key));
}
__device__ inline float logit_of_token(std::uint64_t key) {
  return logit_of(static_cast<std::uint32_t>(key >> 32));
}

// 64-bit sums in two words each, as shared memory adds words.
struct Bins {
  std::uint32_t low[kPlaces], high[kPlaces];

  __device__ void add(int bin, std::uint64_t amount) {
    const auto part = static_cast<std::uint32_t>(amount);
    auto rest = static_cast<std::uint32_t>(amount >> 32);
    const std::uint32_t before = atomicAdd(&low[bin], part);
    if (static_cast<std::uint32_t>(before + part) < part) ++rest;
    if (rest != 0) atomicAdd(&high[bin], rest);
  }
  __device__ std::uint64_t at(int bin) const {
    return static_cast<std::uint64_t>(high[bin]) << 32 | low[bin];
  }
};

struct Room {
  Bins bins;
  union {
    std::uint64_t list[kPlaces];  // token keys
    Bins finer;                   // what is too long for the list is not kept
  };
  std::uint64_t warps[kMaxWarps];
  std::uint64_t found, sum;  // by the thread that has it
  unsigned listed;
};

// Numbers bins along the order of tokens: of the key's distance from `high`, down to `low`; or, where high is
// 0, of the logit's distance from the largest.
struct Ruler {
  std::uint64_t high, low;
  int shift;
};

__device__ inline Ruler divide(std::uint64_t high, std::uint64_t low) {
  constexpr int kBits = 11;
  static_assert(1 << kBits == kPlaces);
  return {high, low, max(64 - __clzll(static_cast<long long>(high - low)) - kBits, 0)};
}

// visit(logit, place) for every place of [begin, end) that is `me` beyond a multiple of kStep, kBatch loads
// at once. NaN stands for places from end on, so that threads of a warp stay together.
template <int kBatch, int kStep, typename Visit>
__device__ __forceinline__ void for_each(const float* logits, int begin, int end, int me,
                                         const Visit& visit) {
  constexpr int kStride = kBatch * kStep;
  for (std::int64_t start = begin; start < end; start += kStride) {
    const int first = static_cast<int>(start) + me;
    float part[kBatch];
    if (start + kStride <= end) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) part[i] = logits[first + i * kStep];
    } else {
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        part[i] = static_cast<std::int64_t>(first) + i * kStep < end ? logits[first + i * kStep] : NAN;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) visit(part[i], first + i * kStep);
  }
}

// The sum over the threads before this one; `total` over all. May be called again at once.
__device__ inline std::uint64_t sum_before(std::uint64_t value, std::uint64_t* warps, std::uint64_t& total) {
  const unsigned lane = threadIdx.x % 32;
  std::uint64_t sum = value;
  for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint64_t earlier = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += earlier;
  }
  __syncthreads();
  if (lane == 31) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  std::uint64_t before = sum - value;
  total = 0;
#pragma unroll 4
  for (unsigned warp = 0; warp < kRowThreads / 32; ++warp) {
    if (warp < threadIdx.x / 32) before += warps[warp];
    total += warps[warp];
  }
  return before;
}

// The largest of each thread's tokens (0: none above -infinity); the first among equals.
__device__ inline std::uint64_t largest_of_thread(const float* logits, std::int64_t vocab) {
  float best = -INFINITY;
  std::int64_t id = 0;
#pragma unroll 16
  for (std::int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    const float logit = logits[i];
    if (logit > best) {
      best = logit;
      id = i;
    }
  }
  return best > -INFINITY ? token_key(best, static_cast<std::int32_t>(id)) : 0;
}

// The largest number that `count` threads' values reach; 0 where fewer have one.
__device__ inline std::uint32_t reached_by(int count, std::uint32_t value) {
  std::uint32_t found = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t candidate = found | 1U << bit;
    if (__syncthreads_count(value >= candidate) >= count) found = candidate;
  }
  return found;
}

}  // namespace attn::cuda
