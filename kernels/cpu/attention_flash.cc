// Flash attention for many queries: everything transposed, so that a SIMD lane is a query.
//
// A tile of queries is packed once as Q^T [dim][query]. Then S^T = K Q^T and O^T += V^T P^T take single
// elements of K and V straight from where they lie (broadcast) against vectors over queries: K and V are
// never packed, and the row maxima and sums of the online softmax are plain vector operations without a sum
// across lanes.
#include "kernels/cpu/attention_flash.h"

#include <cmath>

#include <omp.h>

#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/simd.h"

namespace attn::cpu {

namespace {

// Register blocks: kBlock keys (or dims) times V vectors of queries are accumulated at once. With 32
// registers 6 x 4 accumulators, 4 vectors and a broadcast fit; with 16, 6 x 2.
inline constexpr int kMaxVectors = kLanes == 16 ? 4 : 2;
inline constexpr int kBlock = 6;
inline constexpr int kTileKeys = 96;  // multiple of kBlock

int round_up(int n, int step) { return (n + step - 1) / step * step; }

struct Tile {
  float* q;        // [head_dim][queries], scaled
  float* weights;  // [kTileKeys][queries]: scores, then their exponentials
  float* out;      // [head_dim rounded up to kBlock][queries]
};

std::int64_t tile_floats(int head_dim) {
  return static_cast<std::int64_t>(head_dim + kTileKeys + round_up(head_dim, kBlock)) * kMaxVectors * kLanes;
}

template <int V>
void pack_queries(const AttentionParams& p, int b, int first, int count, int h, float* packed) {
  constexpr int kQueries = V * kLanes;
  for (int i = 0; i < kQueries; ++i) {
    const float* q = i < count ? row_of(p.q, p.q_stride, b, first + i, h) : nullptr;
    for (int d = 0; d < p.head_dim; ++d) packed[d * kQueries + i] = q != nullptr ? q[d] * p.scale : 0.0F;
  }
}

// weights[j][:] = sum_d k[j][d] q[d][:] for `keys` rows of k. Rows past the last repeat it; their scores are
// unused.
template <int V>
void score_tile(const float* q, const float* k, std::int64_t k_step, int keys, int head_dim, float* weights) {
  constexpr int kQueries = V * kLanes;
  for (int j = 0; j < keys; j += kBlock) {
    const float* row[kBlock];
    for (int r = 0; r < kBlock; ++r) row[r] = k + std::min(j + r, keys - 1) * k_step;
    Vec sums[kBlock][V] = {};
    for (int d = 0; d < head_dim; ++d) {
      Vec queries[V];
      for (int v = 0; v < V; ++v) queries[v] = load(q + d * kQueries + v * kLanes);
      for (int r = 0; r < kBlock; ++r) {
        for (int v = 0; v < V; ++v) sums[r][v] += row[r][d] * queries[v];
      }
    }
    for (int r = 0; r < kBlock; ++r) {
      for (int v = 0; v < V; ++v) store(weights + (j + r) * kQueries + v * kLanes, sums[r][v]);
    }
  }
}

// Keys at or past a query's limit get -infinity. limits[v]: per lane, keys visible counted from this tile's
// first.
template <int V>
void mask_tile(const IntVec* limits, int keys, float* weights) {
  constexpr int kQueries = V * kLanes;
  const Vec hidden = broadcast(-kInfinity);
  for (int j = 0; j < keys; ++j) {
    for (int v = 0; v < V; ++v) {
      float* at = weights + j * kQueries + v * kLanes;
      store(at, limits[v] > j ? load(at) : hidden);
    }
  }
}

// One step of the online softmax: weights become exp(score - maximum), `maxima` and `sums` move on, and
// `factors` are what earlier sums must be multiplied with. A query that has seen nothing keeps maximum
// -infinity and sum 0.
template <int V>
void softmax_tile(int keys, float* weights, Vec* maxima, Vec* sums, Vec* factors) {
  constexpr int kQueries = V * kLanes;
  const Vec nothing = broadcast(-kInfinity);
  Vec top[V];
  Vec total[V] = {};
  for (int v = 0; v < V; ++v) top[v] = maxima[v];
  for (int j = 0; j < keys; ++j) {
    for (int v = 0; v < V; ++v) top[v] = maximum(load(weights + j * kQueries + v * kLanes), top[v]);
  }
  for (int v = 0; v < V; ++v) {
    const Vec shift = top[v] == nothing ? Vec{} : top[v];  // never (-infinity) - (-infinity)
    factors[v] = exp_nonpositive(maxima[v] - shift);
    maxima[v] = top[v];
    top[v] = shift;
  }
  for (int j = 0; j < keys; ++j) {
    for (int v = 0; v < V; ++v) {
      float* at = weights + j * kQueries + v * kLanes;
      const Vec weight = exp_nonpositive(load(at) - top[v]);
      total[v] += weight;
      store(at, weight);
    }
  }
  for (int v = 0; v < V; ++v) sums[v] = sums[v] * factors[v] + total[v];
}

// out[d][:] = out[d][:] * factors + sum_j v[j][d] weights[j][:] for `D` dims.
template <int V, int D>
void value_block(const float* v_rows, std::int64_t v_step, int keys, const float* weights, const Vec* factors,
                 float* out) {
  constexpr int kQueries = V * kLanes;
  Vec sums[D][V];
  for (int d = 0; d < D; ++d) {
    for (int v = 0; v < V; ++v) sums[d][v] = load(out + d * kQueries + v * kLanes) * factors[v];
  }
  for (int j = 0; j < keys; ++j) {
    const float* row = v_rows + j * v_step;
    Vec w[V];
    for (int v = 0; v < V; ++v) w[v] = load(weights + j * kQueries + v * kLanes);
    for (int d = 0; d < D; ++d) {
      for (int v = 0; v < V; ++v) sums[d][v] += row[d] * w[v];
    }
  }
  for (int d = 0; d < D; ++d) {
    for (int v = 0; v < V; ++v) store(out + d * kQueries + v * kLanes, sums[d][v]);
  }
}

template <int V>
void value_tile(const float* v_rows, std::int64_t v_step, int keys, int head_dim, const float* weights,
                const Vec* factors, float* out) {
  int d = 0;
  const auto at = [&](int dim) { return out + dim * V * kLanes; };
  for (; d + kBlock <= head_dim; d += kBlock)
    value_block<V, kBlock>(v_rows + d, v_step, keys, weights, factors, at(d));
  switch (head_dim - d) {
    case 1: return value_block<V, 1>(v_rows + d, v_step, keys, weights, factors, at(d));
    case 2: return value_block<V, 2>(v_rows + d, v_step, keys, weights, factors, at(d));
    case 3: return value_block<V, 3>(v_rows + d, v_step, keys, weights, factors, at(d));
    case 4: return value_block<V, 4>(v_rows + d, v_step, keys, weights, factors, at(d));
    case 5: return value_block<V, 5>(v_rows + d, v_step, keys, weights, factors, at(d));
    default: return;
  }
}

template <int V>
void write_queries(const AttentionParams& p, int b, int first, int count, int h, const float* out,
                   const Vec* maxima, const Vec* sums) {
  constexpr int kQueries = V * kLanes;
  for (int i = 0; i < count; ++i) {
    const float denominator = sums[i / kLanes][i % kLanes];
    const float factor = denominator == 0.0F ? 0.0F : 1.0F / denominator;
    float* row = row_of(p.out, p.out_stride, b, first + i, h);
    for (int d = 0; d < p.head_dim; ++d) row[d] = out[d * kQueries + i] * factor;
    if (p.lse == nullptr) continue;
    const float maximum_score = maxima[i / kLanes][i % kLanes];
    p.lse[lse_index(p, b, first + i, h)] =
        denominator == 0.0F ? -kInfinity : maximum_score + std::log(denominator);
  }
}

template <int V>
void query_tile(const AttentionParams& p, int b, int first, int count, int h, const Tile& tile) {
  const int kv_head = h / (p.q_heads / p.kv_heads);
  pack_queries<V>(p, b, first, count, h, tile.q);
  for (int n = 0; n < p.head_dim * V * kLanes; ++n) tile.out[n] = 0;
  Vec maxima[V];
  Vec sums[V] = {};
  Vec factors[V];
  IntVec limits[V];
  for (int v = 0; v < V; ++v) maxima[v] = broadcast(-kInfinity);

  const int seen_by_first = visible_keys(p, first);
  const int seen_by_last = visible_keys(p, first + count - 1);
  for (int j = 0; j < seen_by_last; j += kTileKeys) {
    const int keys = std::min(kTileKeys, seen_by_last - j);
    score_tile<V>(tile.q, row_of(p.k, p.k_stride, b, j, kv_head), p.k_stride.token, keys, p.head_dim,
                  tile.weights);
    if (j + keys > seen_by_first) {
      for (int i = 0; i < V * kLanes; ++i) {
        limits[i / kLanes][i % kLanes] = visible_keys(p, std::min(first + i, p.q_len - 1)) - j;
      }
      mask_tile<V>(limits, keys, tile.weights);
    }
    softmax_tile<V>(keys, tile.weights, maxima, sums, factors);
    value_tile<V>(row_of(p.v, p.v_stride, b, j, kv_head), p.v_stride.token, keys, p.head_dim, tile.weights,
                  factors, tile.out);
  }
  write_queries<V>(p, b, first, count, h, tile.out, maxima, sums);
}

}  // namespace

std::size_t attention_flash_workspace(const AttentionParams& p) {
  if (is_flash_few(p)) return attention_flash_few_workspace(p);
  return static_cast<std::size_t>(omp_get_max_threads()) * static_cast<std::size_t>(tile_floats(p.head_dim)) *
         sizeof(float);
}

void attention_flash(const AttentionParams& p, void* workspace) {
  if (is_flash_few(p)) return attention_flash_few(p, workspace);
  constexpr int kQueries = kMaxVectors * kLanes;
  const std::int64_t heads = static_cast<std::int64_t>(p.batch) * p.q_heads;
  const std::int64_t tiles = (p.q_len + kQueries - 1) / kQueries;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t task = 0; task < tiles * heads; ++task) {
    // The last queries see most keys: longest tasks first.
    const auto first = static_cast<int>((tiles - 1 - task / heads) * kQueries);
    const auto b = static_cast<int>(task % heads / p.q_heads);
    const auto h = static_cast<int>(task % heads % p.q_heads);
    const int count = std::min(kQueries, p.q_len - first);
    float* own = static_cast<float*>(workspace) + omp_get_thread_num() * tile_floats(p.head_dim);
    const std::int64_t queries = kQueries;
    const Tile tile{own, own + p.head_dim * queries, own + (p.head_dim + kTileKeys) * queries};
    if (count <= kLanes) {
      query_tile<1>(p, b, first, count, h, tile);
    } else if (count <= 2 * kLanes) {
      query_tile<2>(p, b, first, count, h, tile);
    } else if (count <= 3 * kLanes && kMaxVectors > 2) {
      query_tile<std::min(3, kMaxVectors)>(p, b, first, count, h, tile);
    } else {
      query_tile<kMaxVectors>(p, b, first, count, h, tile);
    }
  }
}

}  // namespace attn::cpu
