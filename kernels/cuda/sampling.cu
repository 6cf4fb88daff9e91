// The next token of each row: a block a row.
//
// Tokens stand in an order: the larger logit first, then the lower id. What top-k and top-p keep is a prefix
// of it, and the drawn token is where a running sum along it passes a mark; so all three are one question: at
// which token does the running sum (of ones, or of shares) pass a mark?
//
// Shares of the largest are whole numbers, units of 1 / scale: their sums are exact, so that neither the
// order of atomics nor the way of a sum through the block changes a bit, and every step counts with the same
// numbers. What rounds to 0 is not drawn.
//
// Most often the answer stands among the first few hundred tokens: a pass over the row lists those above a
// bound that the largest of each thread gives, and the sorted list answers all. Where it does not, shares are
// counted in bins of the logit's distance from the largest, the bin in which the sum passes the mark is
// listed and sorted, and a bin too full for the list is divided again.
#include <cfloat>
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/token_order.cuh"

namespace attn::cuda {

namespace {

constexpr int kListedFirst = 512;  // about 700 tokens pass the bound that this many threads' largest reach
constexpr int kMostListed = 768;   // about 1400; with 1024 all would
constexpr int kLight = 8, kHeavy = 4;  // loads in flight a thread, by the work on each

// The counter-based generator of lib/core/rng.h.
__device__ std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// 24 random bits as a fraction of 2^64: random_uniform of lib/core/rng.h.
__device__ std::uint64_t random_fraction(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ index) >> 40 << 40;
}

struct Limits {
  int top_k;  // 0: none
  float top_p;
  std::uint64_t uniform;  // of 2^64

  // A sum beyond the result is at least top_p of the total; and at least one token is kept.
  __device__ std::uint64_t kept(std::uint64_t total) const {
    const std::uint64_t enough =
        __double2ull_ru(static_cast<double>(top_p) * static_cast<double>(static_cast<long long>(total)));
    return enough == 0 ? 0 : enough - 1;
  }
  __device__ std::uint64_t drawn(std::uint64_t total) const { return __umul64hi(total, uniform); }
};

class Row {
 public:
  __device__ Row(const float* logits, int vocab, float top, float temperature, Room& room)
      : logits_(logits), vocab_(vocab), top_(top), room_(room) {
    constexpr float kLog2E = 1.44269504F;
    slope_ = fminf(fmaxf(kLog2E / temperature, FLT_MIN), FLT_MAX);
    const int bits = min(40, __clzll(static_cast<long long>(vocab)) - 2);  // sums stay below 2^62
    scale_ = static_cast<float>(1LL << bits);
  }

  // By the order of ids: each warp sums a run of neighbours, the run in which the mark falls is summed again
  // by all threads, and its thread walks.
  __device__ void draw_by_id(const Limits& limits, std::int32_t* next) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int run = (vocab_ + kMaxWarps - 1) / kMaxWarps;
    std::uint64_t sum = 0;
    for_each<kLight, 32>(logits_, begin_of(warp, run, 0, vocab_), begin_of(warp + 1, run, 0, vocab_),
                         static_cast<int>(threadIdx.x) % 32, [&](float logit, int) { sum += share(logit); });
    std::uint64_t total = 0;
    std::uint64_t before = sum_before(sum, room_.warps, total);
    const std::uint64_t mark = limits.drawn(total);
    sum = reduce_warp(sum, Sum());
    if (threadIdx.x % 32 == 0 && before <= mark && mark < before + sum) {
      room_.found = static_cast<std::uint64_t>(warp);
      room_.sum = before;
    }
    __syncthreads();
    const int begin = begin_of(static_cast<int>(room_.found), run, 0, vocab_);
    const int end = begin_of(static_cast<int>(room_.found) + 1, run, 0, vocab_);
    const std::uint64_t earlier = room_.sum;
    const int piece = (run + kRowThreads - 1) / kRowThreads;
    const int me = static_cast<int>(threadIdx.x);
    const int mine = begin_of(me, piece, begin, end);
    const int last = begin_of(me + 1, piece, begin, end);
    sum = 0;
#pragma unroll 1
    for (int i = mine; i < last; ++i) sum += share(logits_[i]);
    before = earlier + sum_before(sum, room_.warps, total);
    if (mark < before || mark >= before + sum) return;
    int id = mine;
    for (before += share(logits_[id]); before <= mark; before += share(logits_[id])) ++id;
    *next = id;
  }

  // The key of the token drawn within limits; `thread_largest`: the key of the largest of this thread's
  // logits. 0 where the limits leave every number and the draw is by id.
  __device__ std::uint64_t draw_limited(const Limits& limits, std::uint32_t thread_largest) {
    const bool by_count = limits.top_k > 0;
    const bool listable = limits.top_k <= kMostListed;
    const int wanted = by_count && listable ? limits.top_k : kListedFirst;
    const std::uint64_t numbers = survey(reached_by(wanted, thread_largest), !by_count);
    if (by_count && limits.top_p >= 1.0F && static_cast<std::uint64_t>(limits.top_k) >= numbers) return 0;
    if (room_.listed <= kPlaces && listable) {
      const std::uint64_t key = draw_listed(limits);
      if (key != 0) return key;
    }
    return draw_binned(limits);
  }

 private:
  // A share of the largest, in units of 1 / scale: 0 for NaN and -infinity.
  __device__ std::uint64_t share(float logit) const {
    return logit <= top_ ? __float2ull_rn(exp2f((logit - top_) * slope_) * scale_) : 0;
  }

  __device__ static int begin_of(int index, int run, int begin, int end) {
    return static_cast<int>(min(static_cast<std::int64_t>(begin) + static_cast<std::int64_t>(index) * run,
                                static_cast<std::int64_t>(end)));
  }

  template <int kBatch, typename Visit>
  __device__ __forceinline__ void for_each_token(const Visit& visit) const {
    for_each<kBatch, kRowThreads>(logits_, 0, vocab_, static_cast<int>(threadIdx.x), visit);
  }

  __device__ void start_list() {
    __syncthreads();
    if (threadIdx.x == 0) room_.listed = 0;
    __syncthreads();
  }
  __device__ void append(std::uint64_t key) {
    const unsigned place = atomicAdd(&room_.listed, 1U);
    if (place < kPlaces) room_.list[place] = key;
  }

  // Lists the tokens from the bound on (0: all above -infinity); counts the row's numbers, finds the range of
  // those with a share, and where `sums`, the sum of shares.
  __device__ std::uint64_t survey(std::uint32_t bound, bool sums) {
    const float least = bound == 0 ? -FLT_MAX : logit_of(bound);
    const float light = top_ - 42.0F / slope_;  // a share of 2^-42 rounds to 0
    std::uint64_t total = 0;
    unsigned numbers = 0;
    float lowest = top_;
    start_list();
    for_each_token<kLight>([&](float logit, int id) {
      numbers += logit == logit;
      if (logit >= light) lowest = fminf(lowest, logit);
      if (sums) total += share(logit);
      if (logit >= least) append(token_key(logit, id));
    });
    total = reduce_block(total, room_.warps, Sum());
    lowest = logit_of(~static_cast<std::uint32_t>(
        reduce_block(static_cast<std::uint64_t>(~logit_key(lowest)), room_.warps, Largest())));
    bins_per_logit_ = static_cast<float>(kPlaces) / (top_ - lowest);
    if (!isfinite(bins_per_logit_)) bins_per_logit_ = 0;
    if (threadIdx.x == 0) room_.sum = total;
    return reduce_block(static_cast<std::uint64_t>(numbers), room_.warps, Sum());
  }

  // Sorts the list in place (bitonic, larger keys first); its length, a power of two, filled with zeros.
  __device__ int sort_list() {
    int size = 64;
    while (size < static_cast<int>(room_.listed)) size *= 2;
    for (int i = static_cast<int>(room_.listed + threadIdx.x); i < size; i += kRowThreads) room_.list[i] = 0;
    bool across = true;  // a step beyond 32 joins pairs of several warps
#pragma unroll 1
    for (int run = 2; run <= size; run *= 2) {
#pragma unroll 1
      for (int step = run / 2; step > 0; step /= 2) {
        if (across || step > 32) {
          __syncthreads();
        } else {
          __syncwarp();
        }
        across = step > 32;
        const int pair = static_cast<int>(threadIdx.x);
        if (pair >= size / 2) continue;
        const int i = 2 * pair - (pair & (step - 1));
        const std::uint64_t a = room_.list[i];
        const std::uint64_t b = room_.list[i + step];
        if ((a < b) == ((i & run) == 0)) {
          room_.list[i] = b;
          room_.list[i + step] = a;
        }
      }
    }
    __syncthreads();
    return size;
  }

  __device__ std::uint64_t share_listed(int place, int size) const {
    const std::uint64_t key = place < size ? room_.list[place] : 0;
    return key == 0 ? 0 : share(logit_of_token(key));
  }

  // In the sorted list, whose sum passes the mark: the key at which it does, to room.found, and the sum up to
  // it, to room.sum. `before`: the sum up to the list.
  __device__ void cross_list(int size, std::uint64_t before, std::uint64_t mark, bool counting) {
    const int place = 2 * static_cast<int>(threadIdx.x);
    std::uint64_t amount[2];
    for (int i = 0; i < 2; ++i) {
      amount[i] = share_listed(place + i, size);
      if (counting && amount[i] != 0) amount[i] = 1;
    }
    std::uint64_t total = 0;
    std::uint64_t sum = before + sum_before(amount[0] + amount[1], room_.warps, total);
    for (int i = 0; i < 2; ++i) {
      if (sum <= mark && mark < sum + amount[i]) {
        room_.found = room_.list[place + i];
        room_.sum = sum + amount[i];
      }
      sum += amount[i];
    }
    __syncthreads();
  }

  // 0 where what top-p keeps reaches beyond the list.
  __device__ std::uint64_t draw_listed(const Limits& limits) {
    const int size = sort_list();
    const int kept = limits.top_k > 0 ? limits.top_k : size;
    std::uint64_t listed = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < min(kept, size); i += kRowThreads)
      listed += share_listed(i, size);
    listed = reduce_block(listed, room_.warps, Sum());
    std::uint64_t total = limits.top_k > 0 ? listed : room_.sum;
#pragma unroll 1
    for (int draw = limits.top_p < 1.0F ? 0 : 1; draw < 2; ++draw) {
      const std::uint64_t mark = draw == 0 ? limits.kept(total) : limits.drawn(total);
      if (mark >= listed) return 0;
      cross_list(size, 0, mark, false);
      total = room_.sum;
    }
    return room_.found;
  }

  __device__ int bin_of(const Ruler& ruler, float logit, int id) const {
    if (ruler.high == 0)
      return static_cast<int>(fminf((top_ - logit) * bins_per_logit_, static_cast<float>(kPlaces - 1)));
    const std::uint64_t key = token_key(logit, id);
    return key > ruler.high || key < ruler.low ? -1 : static_cast<int>((ruler.high - key) >> ruler.shift);
  }

  // Sums the shares (or the number of tokens that have one) by bins, from the key `least` on; the sum of all.
  __device__ std::uint64_t fill(Bins& bins, const Ruler& ruler, std::uint64_t least, bool counting) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kPlaces; i += kRowThreads) bins.low[i] = bins.high[i] = 0;
    __syncthreads();
    std::uint64_t sum = 0;
    for_each_token<kHeavy>([&](float logit, int id) {
      std::uint64_t amount = share(logit);
      if (amount == 0) return;
      if (counting) amount = 1;
      if (least != 0 && token_key(logit, id) < least) return;
      const int bin = bin_of(ruler, logit, id);
      if (bin < 0) return;
      bins.add(bin, amount);
      sum += amount;
    });
    return reduce_block(sum, room_.warps, Sum());  // and all have added
  }

  // The bin in which the running sum passes the mark, to room.found, and the sum before it, to room.sum.
  __device__ void cross_bins(const Bins& bins, std::uint64_t before, std::uint64_t mark) {
    const int bin = 2 * static_cast<int>(threadIdx.x);
    const std::uint64_t amount[2] = {bins.at(bin), bins.at(bin + 1)};
    std::uint64_t total = 0;
    std::uint64_t sum = before + sum_before(amount[0] + amount[1], room_.warps, total);
    for (int i = 0; i < 2; ++i) {
      if (sum <= mark && mark < sum + amount[i]) {
        room_.found = static_cast<std::uint64_t>(bin + i);
        room_.sum = sum;
      }
      sum += amount[i];
    }
    __syncthreads();
  }

  // Lists the tokens of a bin that have a share; the ruler that divides them.
  __device__ Ruler list_bin(const Ruler& ruler, int bin) {
    std::uint64_t high = 0;
    std::uint64_t low = ~0ULL;
    start_list();
    for_each_token<kLight>([&](float logit, int id) {
      if (!(logit <= top_) || bin_of(ruler, logit, id) != bin || share(logit) == 0) return;
      const std::uint64_t key = token_key(logit, id);
      high = Largest()(high, key);
      low = key < low ? key : low;
      append(key);
    });
    high = reduce_block(high, room_.warps, Largest());
    low = ~reduce_block(~low, room_.warps, Largest());
    return divide(high, low);
  }

  // The bins of all tokens serve top-p and the draw alike: marks lie within what is kept, and the order up to
  // there is the same with what is not.
  __device__ std::uint64_t draw_binned(const Limits& limits) {
    enum { keep_count, keep_share, draw };
    std::uint64_t least = 0;
    std::uint64_t total = 0;
    bool filled = false;
#pragma unroll 1
    for (int step = limits.top_k > 0 ? keep_count : keep_share; step <= draw; ++step) {
      if (step == keep_share && limits.top_p >= 1.0F) continue;
      const bool counting = step == keep_count;
      std::uint64_t mark = 0;
      std::uint64_t before = 0;
      Ruler ruler{};
#pragma unroll 1
      for (bool coarse = true;; coarse = false) {
        Bins& bins = coarse ? room_.bins : room_.finer;
        if (!coarse || !filled) {
          const std::uint64_t sum = fill(bins, ruler, coarse ? least : 0, counting);
          if (coarse) total = sum;
        }
        if (coarse) {
          filled = !counting;
          mark = counting             ? static_cast<std::uint64_t>(limits.top_k) - 1
                 : step == keep_share ? limits.kept(total)
                                      : limits.drawn(total);
          if (mark >= total) break;  // top-k leaves all that have a share
        }
        cross_bins(bins, before, mark);
        before = room_.sum;
        ruler = list_bin(ruler, static_cast<int>(room_.found));
        if (room_.listed > kPlaces) continue;
        cross_list(sort_list(), before, mark, counting);
        if (counting) least = room_.found;
        if (step == keep_share) total = room_.sum;
        break;
      }
    }
    return room_.found;
  }

  const float* logits_;
  int vocab_;
  float top_, slope_, scale_;
  float bins_per_logit_ = 0;
  Room& room_;
};

__global__ void __launch_bounds__(kRowThreads) pick_kernel(const PickToken args) {
  __shared__ Room room;
  for (std::int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    std::int32_t* next = args.next + r * args.next_step;
    const float* logits = args.logits + r * args.logits_step;
    const std::uint64_t mine = largest_of_thread(logits, args.vocab);
    const std::uint64_t first = reduce_block(mine, room.warps, Largest());
    const std::int32_t best =
        first == 0 ? 0 : id_of(first);  // nothing above -infinity: whatever stands there
    const float top = logits[best];
    if (args.temperature == 0.0F || !isfinite(top)) {
      if (threadIdx.x == 0) *next = best;
      __syncthreads();
      continue;
    }
    Limits limits{args.top_k > 0 && args.top_k < args.vocab ? args.top_k : 0, args.top_p,
                  random_fraction(args.seed, static_cast<std::uint64_t>(r),
                                  static_cast<std::uint64_t>(static_cast<std::uint32_t>(*args.past_len)))};
    Row row(logits, static_cast<int>(args.vocab), top, args.temperature, room);
    std::uint64_t key = 0;
    if (limits.top_k > 0 || limits.top_p < 1.0F)
      key = row.draw_limited(limits, static_cast<std::uint32_t>(mine >> 32));
    if (key == 0) {
      row.draw_by_id(limits, next);
    } else if (threadIdx.x == 0) {
      *next = id_of(key);
    }
    __syncthreads();
  }
}

}  // namespace

cudaError_t pick_token(const PickToken& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  pick_kernel<<<grid_for(args.rows), kRowThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace attn::cuda
