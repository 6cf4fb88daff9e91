// The next token of each row: a block a row.
//
// Tokens are ordered by a 64-bit key, larger first: the logit's bits made monotonic, then the lower id first.
// A prefix of that order is found by setting the bits of its last key from the top, with a pass over the row
// for each: no sorting, no memory, and the sums are taken in a fixed order.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/sampling.h"

namespace attn::cuda {

namespace {

constexpr int kThreads = 1024;

// The counter-based generator of lib/core/rng.h.
__device__ std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__device__ float random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<float>(mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ index) >> 40) * 0x1p-24F;
}

// Larger logits have larger keys, NaN the least; never 0.
__device__ std::uint32_t logit_key(float logit) {
  if (isnan(logit)) return 1;
  if (logit == 0.0F) logit = 0.0F;  // -0 equals 0
  const std::uint32_t bits = __float_as_uint(logit);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ std::uint64_t token_key(float logit, std::int64_t id) {
  return static_cast<std::uint64_t>(logit_key(logit)) << 32 | (0xffffffffU - static_cast<std::uint32_t>(id));
}
__device__ std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(key));
}

struct Row {
  const float* logits;
  std::int64_t vocab;
  float temperature, top;
  std::uint64_t* keys;  // shared: kMaxWarps
  double* sums;         // shared: kMaxWarps

  // A share of the largest: 1 for the largest itself, 0 for NaN and -infinity.
  __device__ double share(float logit) const {
    return logit <= top ? static_cast<double>(expf((logit - top) / temperature)) : 0.0;
  }

  template <typename Weight>
  __device__ double sum_from(std::uint64_t least, const Weight& weight) const {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < vocab; i += kThreads) {
      const float logit = logits[i];
      if (token_key(logit, i) >= least) sum += weight(logit);
    }
    return reduce_block(sum, sums, Sum());
  }

  // The key of the token at which the running sum of weights, largest token first, reaches `mark` (or passes
  // it, with `beyond`); `least` if it never does. Only bits above those settled change from pass to pass.
  template <typename Weight>
  __device__ std::uint64_t crossing(std::uint64_t least, double mark, bool beyond,
                                    const Weight& weight) const {
    std::uint64_t found = 0;
    for (int bit = 63; bit >= 0; --bit) {
      const std::uint64_t candidate = found | 1ULL << bit;
      if (candidate <= least) {
        found = candidate;
        continue;
      }
      const double sum = sum_from(candidate, weight);
      if (beyond ? sum > mark : sum >= mark) found = candidate;
      if (bit == 32) {  // ties are rare: with one token of this logit its id is known
        const std::uint64_t alone = only_token(found >> 32);
        if (alone != 0) return alone >= least ? alone : least;
      }
    }
    return found;
  }

  // The key of the one token whose logit has this key; 0 where there are several or none.
  __device__ std::uint64_t only_token(std::uint64_t logit) const {
    std::uint64_t key = 0;
    double count = 0;
    for (std::int64_t i = threadIdx.x; i < vocab; i += kThreads) {
      if (logit_key(logits[i]) != logit) continue;
      key = token_key(logits[i], i);
      count += 1;
    }
    count = reduce_block(count, sums, Sum());
    key = reduce_block(key, keys, Largest());
    return count == 1 ? key : 0;
  }

  // The first of the largest; with nothing above -infinity id 0, whatever stands there.
  __device__ std::uint64_t largest() const {
    float best = -INFINITY;
    std::int64_t id = 0;
#pragma unroll 16
    for (std::int64_t i = threadIdx.x; i < vocab; i += kThreads) {
      const float logit = logits[i];
      if (logit > best) {
        best = logit;
        id = i;
      }
    }
    const std::uint64_t key = best > -INFINITY ? token_key(best, id) : 0;
    const std::uint64_t found = reduce_block(key, keys, Largest());
    return found == 0 ? token_key(-INFINITY, 0) : found;
  }

  // Without limits tokens are drawn in the order of their ids: each thread sums a run of neighbours, the
  // thread in whose run the mark falls walks it.
  __device__ void draw_by_id(float uniform, double* prefix, std::int32_t* next) const {
    const std::int64_t run = (vocab + kThreads - 1) / kThreads;
    const std::int64_t begin = min(run * static_cast<std::int64_t>(threadIdx.x), vocab);
    const std::int64_t end = min(begin + run, vocab);
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += share(logits[i]);
    prefix[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {
      const double earlier =
          static_cast<int>(threadIdx.x) >= step ? prefix[static_cast<int>(threadIdx.x) - step] : 0.0;
      __syncthreads();
      prefix[threadIdx.x] += earlier;
      __syncthreads();
    }
    const double mark = static_cast<double>(uniform) * prefix[kThreads - 1];
    double before = threadIdx.x == 0 ? 0.0 : prefix[threadIdx.x - 1];
    if (mark < before || !(mark < prefix[threadIdx.x])) return;
    std::int64_t last = begin;
    for (std::int64_t i = begin; i < end; ++i) {
      const double part = share(logits[i]);
      if (part == 0) continue;
      before += part;
      last = i;
      if (mark < before) break;
    }
    *next = static_cast<std::int32_t>(last);
  }
};

__global__ void __launch_bounds__(kThreads) pick_kernel(const PickToken args) {
  __shared__ std::uint64_t keys[kMaxWarps];
  __shared__ double sums[kMaxWarps];
  __shared__ double prefix[kThreads];
  for (std::int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    std::int32_t* next = args.next + r * args.next_step;
    Row row{args.logits + r * args.logits_step, args.vocab, args.temperature, 0, keys, sums};
    const std::int32_t best = id_of(row.largest());
    row.top = row.logits[best];
    if (args.temperature == 0.0F || !isfinite(row.top)) {
      if (threadIdx.x == 0) *next = best;
      __syncthreads();
      continue;
    }
    const float uniform =
        random_uniform(args.seed, static_cast<std::uint64_t>(r),
                       static_cast<std::uint64_t>(static_cast<std::uint32_t>(*args.past_len)));
    const bool limited = args.top_k > 0 && args.top_k < args.vocab;
    if (!limited && args.top_p >= 1.0F) {
      row.draw_by_id(uniform, prefix, next);
      __syncthreads();
      continue;
    }
    const auto share = [&](float logit) { return row.share(logit); };
    std::uint64_t least = 0;
    if (limited) least = row.crossing(0, args.top_k, false, [](float) { return 1.0; });
    double total = row.sum_from(least, share);
    if (args.top_p < 1.0F) {
      least = row.crossing(least, static_cast<double>(args.top_p) * total, false, share);
      total = row.sum_from(least, share);
    }
    const std::uint64_t key = row.crossing(least, static_cast<double>(uniform) * total, true, share);
    if (threadIdx.x == 0) *next = id_of(key);
    __syncthreads();
  }
}

}  // namespace

cudaError_t pick_token(const PickToken& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  pick_kernel<<<grid_for(args.rows), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace attn::cuda
