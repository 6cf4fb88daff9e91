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
inline constexpr int kMaxParts =
    4;  // vectors of the head dimension that are accumulated in registers at once

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

// scores[r][j] = scale * q[r] . k[j]; scores rows are kTileKeys apart.
template <int R>
void score_keys(const float* const* q, const float* k, std::int64_t k_step, int keys, int head_dim,
                float scale, float* scores) {
  const int whole = head_dim - head_dim % kLanes;
  for (int j = 0; j < keys; ++j) {
    const float* row = k + j * k_step;
    Vec sums[R] = {};
    for (int d = 0; d < whole; d += kLanes) {
      const Vec key = load(row + d);
      for (int r = 0; r < R; ++r) sums[r] += key * load(q[r] + d);
    }
    for (int r = 0; r < R; ++r) {
      float dot = sum(sums[r]);
      for (int d = whole; d < head_dim; ++d) dot += row[d] * q[r][d];
      scores[r * kTileKeys + j] = dot * scale;
    }
  }
}

// out[r][0 ... P * kLanes) = out * factors[r] + sum_j weights[r][j] v[j][...]
template <int R, int P>
void add_values(const float* v, std::int64_t v_step, int keys, const float* weights, const float* factors,
                float* const* out) {
  Vec sums[R][P];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < P; ++n) sums[r][n] = load(out[r] + n * kLanes) * factors[r];
  }
  for (int j = 0; j < keys; ++j) {
    Vec values[P];
    for (int n = 0; n < P; ++n) values[n] = load(v + j * v_step + n * kLanes);
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < P; ++n) sums[r][n] += weights[r * kTileKeys + j] * values[n];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < P; ++n) store(out[r] + n * kLanes, sums[r][n]);
  }
}

template <int R>
void add_all_values(const float* v, std::int64_t v_step, int keys, int head_dim, const float* weights,
                    const float* factors, float* const* out) {
  float* at[R];
  int d = 0;
  const auto move = [&](int dim) {
    for (int r = 0; r < R; ++r) at[r] = out[r] + dim;
  };
  for (; d + kMaxParts * kLanes <= head_dim; d += kMaxParts * kLanes) {
    move(d);
    add_values<R, kMaxParts>(v + d, v_step, keys, weights, factors, at);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    move(d);
    add_values<R, 1>(v + d, v_step, keys, weights, factors, at);
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

// [batch, kv_head, chunk, row of the key head, 2 + head_dim] f32.
std::size_t attention_flash_few_workspace(const AttentionParams& p) {
  const Split split = split_of(p);
  return static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.kv_heads) *
         static_cast<std::size_t>(split.chunks) * static_cast<std::size_t>(split.rows) *
         static_cast<std::size_t>(partial_floats(p)) * sizeof(float);
}

void attention_flash_few(const AttentionParams& p, void* workspace) {
  const Split split = split_of(p);
  const std::int64_t chunk_step = split.rows * partial_floats(p);
  const std::int64_t heads = static_cast<std::int64_t>(p.batch) * p.kv_heads;
  float* partials = static_cast<float*>(workspace);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < heads * split.chunks; ++task) {
      const auto head = task / split.chunks;
      chunk_task(p, static_cast<int>(head / p.kv_heads), static_cast<int>(head % p.kv_heads),
                 static_cast<int>(task % split.chunks), split.rows, partials + task * chunk_step);
    }
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < heads * split.rows; ++n) {
      const auto head = n / split.rows;
      const auto r = static_cast<int>(n % split.rows);
      combine(p, static_cast<int>(head / p.kv_heads), row_at(p, static_cast<int>(head % p.kv_heads), r),
              split.chunks, partials + head * split.chunks * chunk_step + r * partial_floats(p), chunk_step);
    }
  }
}

}  // namespace attn::cpu
