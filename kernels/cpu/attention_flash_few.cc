// Flash attention for few queries (decode): one pass over K and V, split over keys, combined in a fixed
// order.
//
// The keys are cut in chunks of a fixed length, each chunk of each key head is one task, and the partial
// results are combined in the order of the keys: the result does not depend on the number of threads or on
// the batch. All query rows that read one key head (q_len times the heads of its group) share its loads,
// kRows at a time.
#include <cmath>

#include <omp.h>

#include "kernels/cpu/attention_flash.h"
#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/simd.h"

namespace attn::cpu {

namespace {

inline constexpr int kChunkKeys = 512;
inline constexpr int kTileKeys = 128;  // multiple of kLanes
inline constexpr int kMaxRows = 4;

// A query row as this kernel sees it: query index and query head.
struct Row {
  int query, head;
};

struct Split {
  int rows;    // query rows of one key head
  int chunks;  // of keys
};

Split split_of(const AttentionParams& p) {
  return {p.q_len * (p.q_heads / p.kv_heads), std::max(1, (p.kv_len + kChunkKeys - 1) / kChunkKeys)};
}

Row row_at(const AttentionParams& p, int kv_head, int r) {
  const int group = p.q_heads / p.kv_heads;
  return {r / group, kv_head * group + r % group};
}

// A partial result: [maximum, sum, out[head_dim]].
std::int64_t partial_floats(const AttentionParams& p) { return p.head_dim + 2; }

// scores[j] = scale * q . k[j] for kLanes keys. Keys past `keys` repeat the last; their scores mean nothing.
template <bool kWhole>
ATTN_INLINE void score_block(const float* q, const float* k, std::int64_t k_step, int keys, int head_dim,
                             float scale, float* scores) {
  constexpr int kAtOnce =
      kLanes < 8 ? kLanes : 8;  // keys: enough sums in flight to hide the latency of an addition
  const int whole = head_dim - head_dim % kLanes;
  Vec parts[kLanes];
  for (int j = 0; j < kLanes; j += kAtOnce) {
    const float* row[kAtOnce];
    for (int n = 0; n < kAtOnce; ++n) row[n] = k + (kWhole ? j + n : std::min(j + n, keys - 1)) * k_step;
    Vec totals[kAtOnce] = {};
    for (int d = 0; d < whole; d += kLanes) {
      const Vec query = load(q + d);
      for (int n = 0; n < kAtOnce; ++n) totals[n] += query * load(row[n] + d);
    }
    for (int n = 0; n < kAtOnce; ++n) parts[j + n] = totals[n];
  }
  store(scores, sums(parts) * scale);
  for (int d = whole; d < head_dim; ++d) {
    for (int j = 0; j < keys; ++j) scores[j] += k[j * k_step + d] * q[d] * scale;
  }
}

// scores[r][j] = scale * q[r] . k[j]; scores rows are kTileKeys apart and are written up to the next multiple
// of kLanes.
template <int R>
void score_keys(const float* const* q, const float* k, std::int64_t k_step, int keys, int head_dim,
                float scale, float* scores) {
  for (int j = 0; j < keys; j += kLanes) {
    for (int r = 0; r < R; ++r) {
      float* at = scores + r * kTileKeys + j;
      if (keys - j >= kLanes) {
        score_block<true>(q[r], k + j * k_step, k_step, kLanes, head_dim, scale, at);
      } else {
        score_block<false>(q[r], k + j * k_step, k_step, keys - j, head_dim, scale, at);
      }
    }
  }
}

// out[r][0 ... P * kLanes) = out * factors[r] + sum_j weights[r][j] v[j][...]
template <int R, int P>
void add_values(const float* v, std::int64_t v_step, int keys, const float* weights, const float* factors,
                float* const* out) {
  constexpr int kSets =
      R == 1 ? 2 : 1;  // of sums, for every second key: one row alone would wait for its additions
  Vec totals[kSets][R][P] = {};
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < P; ++n) totals[0][r][n] = load(out[r] + n * kLanes) * factors[r];
  }
  const auto add_key = [&](int set, int j) {
    Vec values[P];
    for (int n = 0; n < P; ++n) values[n] = load(v + j * v_step + n * kLanes);
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < P; ++n) totals[set][r][n] += weights[r * kTileKeys + j] * values[n];
    }
  };
  int j = 0;
  for (; j + kSets <= keys; j += kSets) {
    for (int set = 0; set < kSets; ++set) add_key(set, j + set);
  }
  if (j < keys) add_key(0, j);
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < P; ++n) {
      store(out[r] + n * kLanes, kSets == 2 ? totals[0][r][n] + totals[kSets - 1][r][n] : totals[0][r][n]);
    }
  }
}

// Accumulators that fit in the registers beside the values themselves.
template <int R>
constexpr int max_parts() {
  if (kLanes == 16) return R <= 2 ? 8 : 5;
  return R == 1 ? 8 : 8 / R;
}

template <int R, int P>
void add_parts(const float* v, std::int64_t v_step, int keys, int parts, const float* weights,
               const float* factors, float* const* out) {
  if constexpr (P > 0) {
    if (parts == P) return add_values<R, P>(v, v_step, keys, weights, factors, out);
    add_parts<R, P - 1>(v, v_step, keys, parts, weights, factors, out);
  }
}

template <int R>
void add_all_values(const float* v, std::int64_t v_step, int keys, int head_dim, const float* weights,
                    const float* factors, float* const* out) {
  constexpr int kMost = max_parts<R>();
  int d = 0;
  while (d + kLanes <= head_dim) {
    const int parts = std::min(kMost, (head_dim - d) / kLanes);
    float* at[R];
    for (int r = 0; r < R; ++r) at[r] = out[r] + d;
    add_parts<R, kMost>(v + d, v_step, keys, parts, weights, factors, at);
    d += parts * kLanes;
  }
  for (; d < head_dim; ++d) {
    for (int r = 0; r < R; ++r) {
      float total = out[r][d] * factors[r];
      for (int j = 0; j < keys; ++j) total += weights[r * kTileKeys + j] * v[j * v_step + d];
      out[r][d] = total;
    }
  }
}

// Scores of one row become weights; returns the factor for what was summed before.
float softmax_step(float* scores, int keys, float& maximum_score, float& denominator) {
  const int padded = (keys + kLanes - 1) / kLanes * kLanes;
  for (int j = keys; j < padded; ++j) scores[j] = -kInfinity;
  Vec best = broadcast(maximum_score);
  for (int j = 0; j < padded; j += kLanes) best = maximum(load(scores + j), best);
  const float top = largest(best);
  const float shift = top == -kInfinity ? 0.0F : top;
  Vec total{};
  for (int j = 0; j < padded; j += kLanes) {
    const Vec weight = exp_nonpositive(load(scores + j) - shift);
    store(scores + j, weight);
    total += weight;
  }
  const float factor = maximum_score == -kInfinity ? 0.0F : std::exp(maximum_score - shift);
  maximum_score = top;
  denominator = denominator * factor + sum(total);
  return factor;
}

// Rows first_row ... first_row + R - 1 of one key head over one chunk of keys; partial[r] is written.
template <int R>
void chunk_of_rows(const AttentionParams& p, int b, int kv_head, int first_row, int chunk, float* partial) {
  const float* q[R];
  float* out[R];
  int limits[R];
  float maxima[R];
  float sums[R];
  int most = 0;
  const int begin = chunk * kChunkKeys;
  for (int r = 0; r < R; ++r) {
    const Row row = row_at(p, kv_head, first_row + r);
    q[r] = row_of(p.q, p.q_stride, b, row.query, row.head);
    out[r] = partial + r * partial_floats(p) + 2;
    limits[r] = std::clamp(visible_keys(p, row.query) - begin, 0, kChunkKeys);
    most = std::max(most, limits[r]);
    maxima[r] = -kInfinity;
    sums[r] = 0;
    for (int d = 0; d < p.head_dim; ++d) out[r][d] = 0;
  }
  alignas(64) float scores[R * kTileKeys];
  for (int j = 0; j < most; j += kTileKeys) {
    const int keys = std::min(kTileKeys, most - j);
    const float* k = row_of(p.k, p.k_stride, b, begin + j, kv_head);
    const float* v = row_of(p.v, p.v_stride, b, begin + j, kv_head);
    score_keys<R>(q, k, p.k_stride.token, keys, p.head_dim, p.scale, scores);
    float factors[R];
    for (int r = 0; r < R; ++r) {
      for (int n = std::max(0, limits[r] - j); n < keys; ++n) scores[r * kTileKeys + n] = -kInfinity;
      factors[r] = softmax_step(scores + r * kTileKeys, keys, maxima[r], sums[r]);
    }
    add_all_values<R>(v, p.v_stride.token, keys, p.head_dim, scores, factors, out);
  }
  for (int r = 0; r < R; ++r) {
    out[r][-2] = maxima[r];
    out[r][-1] = sums[r];
  }
}

// partials: of this row, one a chunk, `step` floats apart.
void combine(const AttentionParams& p, int b, const Row& row, int chunks, const float* partials,
             std::int64_t step) {
  float top = -kInfinity;
  for (int c = 0; c < chunks; ++c) top = std::max(top, partials[c * step]);
  const float shift = top == -kInfinity ? 0.0F : top;
  float* out = row_of(p.out, p.out_stride, b, row.query, row.head);
  for (int d = 0; d < p.head_dim; ++d) out[d] = 0;
  float denominator = 0;
  for (int c = 0; c < chunks; ++c) {
    const float* partial = partials + c * step;
    const float factor = std::exp(partial[0] - shift);
    denominator += partial[1] * factor;
    for (int d = 0; d < p.head_dim; ++d) out[d] += partial[2 + d] * factor;
  }
  const float inverse = denominator == 0.0F ? 0.0F : 1.0F / denominator;
  for (int d = 0; d < p.head_dim; ++d) out[d] *= inverse;
  if (p.lse != nullptr) {
    p.lse[lse_index(p, b, row.query, row.head)] =
        denominator == 0.0F ? -kInfinity : top + std::log(denominator);
  }
}

void chunk_task(const AttentionParams& p, int b, int kv_head, int chunk, int rows, float* partials) {
  for (int r = 0; r < rows;) {
    float* at = partials + r * partial_floats(p);
    switch (std::min(kMaxRows, rows - r)) {
      case 1: chunk_of_rows<1>(p, b, kv_head, r, chunk, at); break;
      case 2: chunk_of_rows<2>(p, b, kv_head, r, chunk, at); break;
      case 3: chunk_of_rows<3>(p, b, kv_head, r, chunk, at); break;
      default: chunk_of_rows<4>(p, b, kv_head, r, chunk, at); break;
    }
    r += kMaxRows;
  }
}

}  // namespace

// [batch, kv_head, chunk, row of the key head, 2 + head_dim] f32, then chunks done [batch, kv_head] i32.
std::size_t attention_flash_few_workspace(const AttentionParams& p) {
  const Split split = split_of(p);
  const std::int64_t partials = split.chunks * split.rows * partial_floats(p);
  return static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.kv_heads) *
         static_cast<std::size_t>(partials + 1) * sizeof(float);
}

void attention_flash_few(const AttentionParams& p, void* workspace) {
  const Split split = split_of(p);
  const std::int64_t chunk_step = split.rows * partial_floats(p);
  const std::int64_t head_step = split.chunks * chunk_step;
  const std::int64_t heads = static_cast<std::int64_t>(p.batch) * p.kv_heads;
  float* partials = static_cast<float*>(workspace);
  auto* done = reinterpret_cast<std::int32_t*>(partials + heads * head_step);
  std::fill(done, done + heads, 0);
#pragma omp parallel for schedule(static)
  for (std::int64_t task = 0; task < heads * split.chunks; ++task) {
    const auto head = task / split.chunks;
    const auto b = static_cast<int>(head / p.kv_heads);
    const auto kv_head = static_cast<int>(head % p.kv_heads);
    chunk_task(p, b, kv_head, static_cast<int>(task % split.chunks), split.rows,
               partials + task * chunk_step);
    // Who finishes a head's last chunk combines the head: no second barrier. The order of the sum is that of
    // the keys.
    if (__atomic_add_fetch(done + head, 1, __ATOMIC_ACQ_REL) < split.chunks) continue;
    for (int r = 0; r < split.rows; ++r) {
      combine(p, b, row_at(p, kv_head, r), split.chunks, partials + head * head_step + r * partial_floats(p),
              chunk_step);
    }
  }
}

}  // namespace attn::cpu
