// What two rows of logits are apart: a block a row, which is read three times: for the differences and the
// largest, for the sums of the softmaxes, and for what is between them.
#include <cmath>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/logit_comparison.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/token_order.cuh"
#include "kernels/logit_terms.h"

namespace attn::cuda {

namespace {

constexpr int kMostThreads = 256;
constexpr int kPack = 4;
constexpr int kTop = 5;

struct Greater {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Lesser {
  __device__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a < b ? a : b; }
};

// The largest of the tokens that a thread sees, largest first. 0: fewer than that so far.
class Largest5 {
 public:
  // In the order of ids, so that of equal logits the first stays. Not for NaN and -infinity, which it leaves
  // out.
  __device__ void add(float logit, std::int32_t id) {
    if (!(logit > least_)) return;
    std::uint64_t key = token_key(logit, id);
#pragma unroll
    for (int i = 0; i < kTop; ++i) {
      const std::uint64_t smaller = key < keys_[i] ? key : keys_[i];
      keys_[i] = key < keys_[i] ? keys_[i] : key;
      key = smaller;
    }
    if (keys_[kTop - 1] != 0) least_ = logit_of_token(keys_[kTop - 1]);
  }
  // The block's largest token, taken from the thread that has it; 0: none is left.
  __device__ std::uint64_t take_largest(std::uint64_t* shared) {
    const std::uint64_t largest = reduce_block(keys_[0], shared, Largest());
    if (keys_[0] == largest) {
#pragma unroll
      for (int i = 0; i + 1 < kTop; ++i) keys_[i] = keys_[i + 1];
      keys_[kTop - 1] = 0;
    }
    return largest;
  }

 private:
  std::uint64_t keys_[kTop] = {};
  float least_ = -INFINITY;
};

// One row of each side.
struct TwoRows {
  const float* base;
  const float* other;
  std::int32_t vocab;
  bool base_packs, other_packs;  // can be read in packs

  // visit(base, other, id) for every token of this thread, in the order of ids. Which tokens are whose does
  // not depend on where the rows lie, so neither do the bits of a sum.
  template <typename Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
    const std::int32_t step = static_cast<std::int32_t>(blockDim.x) * kPack;
    // Unsigned: a step beyond the last token may pass the largest signed number.
    for (std::uint32_t i = threadIdx.x * kPack; i < static_cast<std::uint32_t>(vocab); i += step) {
      const auto first = static_cast<std::int32_t>(i);
      const Pack<float, kPack> p = load(base, base_packs, first);
      const Pack<float, kPack> q = load(other, other_packs, first);
#pragma unroll
      for (int n = 0; n < kPack; ++n) {
        if (first + n < vocab) visit(p.at[n], q.at[n], first + n);
      }
    }
  }

 private:
  __device__ __forceinline__ Pack<float, kPack> load(const float* row, bool packs, std::int32_t first) const {
    if (packs && first <= vocab - kPack) return load_pack<kPack>(row + first);
    Pack<float, kPack> out{};
#pragma unroll
    for (int n = 0; n < kPack; ++n) {
      if (first < vocab - n) out.at[n] = row[first + n];
    }
    return out;
  }
};

__device__ bool packed(const float* row) { return reinterpret_cast<std::uintptr_t>(row) % (kPack * 4) == 0; }

__global__ void __launch_bounds__(kMostThreads, 3) compare_kernel(const CompareLogits args) {
  __shared__ double sums[kMaxWarps];
  __shared__ std::uint64_t keys[kMaxWarps];
  __shared__ std::int32_t places[kMaxWarps];
  const auto vocab = static_cast<std::int32_t>(args.vocab);
  const bool writes = threadIdx.x == 0;  // each figure once it is there: registers are scarce
  for (std::int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    const float* base = args.base + r * args.base_step;
    const float* other = args.other + r * args.other_step;
    const TwoRows rows{base, other, vocab, packed(base), packed(other)};
    LogitComparison& out = args.out[r];
    if (writes) out = LogitComparison();

    Largest5 base_top;
    Largest5 other_top;
    std::int32_t nonfinite = vocab;
    double max_diff = 0;
    double diff_sum = 0;
    rows.for_each([&](float p, float q, std::int32_t id) {
      if (!isfinite(p) || !isfinite(q)) nonfinite = Lesser()(nonfinite, id);
      const double diff = fabs(static_cast<double>(p) - static_cast<double>(q));
      max_diff = Greater()(diff, max_diff);
      diff_sum += diff;
      base_top.add(p, id);
      other_top.add(q, id);
    });
    nonfinite = reduce_block(nonfinite, places, Lesser());
    if (nonfinite < vocab) {
      if (writes) out.first_nonfinite = nonfinite;
      continue;
    }
    max_diff = reduce_block(max_diff, sums, Greater());
    diff_sum = reduce_block(diff_sum, sums, Sum());
    if (writes) out.max_diff = max_diff;
    if (writes) out.mean_diff = diff_sum / vocab;

    std::uint64_t base_five[kTop];
#pragma unroll
    for (int i = 0; i < kTop; ++i) base_five[i] = base_top.take_largest(keys);
    const float base_largest = logit_of_token(base_five[0]);
    float other_largest = 0;
    int shared_places = 0;
#pragma unroll
    for (int i = 0; i < kTop; ++i) {
      const std::uint64_t key = other_top.take_largest(keys);
      if (i == 0) other_largest = logit_of_token(key);
      if (i == 0 && writes) out.other_argmax = id_of(key);
#pragma unroll
      for (int j = 0; j < kTop; ++j) shared_places += key != 0 && id_of(base_five[j]) == id_of(key) ? 1 : 0;
    }
    if (writes) out.base_argmax = id_of(base_five[0]);
    if (writes) out.top5_shared = static_cast<double>(shared_places) / (vocab < kTop ? vocab : kTop);

    const bool equal = max_diff == 0;  // then all that is between them is 0
    double base_sum = 0;
    double other_sum = 0;
    rows.for_each([&](float p, float q, std::int32_t) {
      base_sum += exp(static_cast<double>(p) - static_cast<double>(base_largest));
      if (!equal) other_sum += exp(static_cast<double>(q) - static_cast<double>(other_largest));
    });
    const double base_log_sum = log(reduce_block(base_sum, sums, Sum()));
    const double other_log_sum = equal ? base_log_sum : log(reduce_block(other_sum, sums, Sum()));
    const double base_norm = static_cast<double>(base_largest) + base_log_sum;
    const std::int32_t target = args.targets == nullptr ? -1 : args.targets[r * args.targets_step];
    if (writes && target >= 0) {
      const double other_norm = static_cast<double>(other_largest) + other_log_sum;
      const double base_loss = base_norm - static_cast<double>(base[target]);
      const double other_loss = other_norm - static_cast<double>(other[target]);
      out.target = target;
      out.base_loss = base_loss;
      out.other_loss = other_loss;
      if (!equal) out.delta_p = exp(-other_loss) - exp(-base_loss);
    }
    if (equal) continue;

    const double norm_diff = static_cast<double>(other_largest) - static_cast<double>(base_largest) +
                             (other_log_sum - base_log_sum);
    double kl = 0;
    double js = 0;
    rows.for_each([&](float p, float q, std::int32_t) {
      const DivergenceTerms terms = divergence_terms(
          static_cast<double>(p) - base_norm, static_cast<double>(q) - static_cast<double>(p) - norm_diff);
      kl += terms.kl;
      js += terms.js;
    });
    kl = reduce_block(kl, sums, Sum());
    js = reduce_block(js, sums, Sum());
    if (writes) out.kl = bounded_kl(kl);
    if (writes) out.js = bounded_js(js);
  }
}

}  // namespace

cudaError_t compare_logits(const CompareLogits& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const std::int64_t packs = (args.vocab + kPack - 1) / kPack;
  compare_kernel<<<grid_for(args.rows), threads_for(packs, kMostThreads), 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace attn::cuda
