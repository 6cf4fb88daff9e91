// Attention by its definition, in double.
#include "kernels/cpu/attention_reference.h"

#include <cmath>
#include <limits>

#include <omp.h>

#include "kernels/cpu/attention_rows.h"

namespace attn::cpu {

namespace {

// weights: [kv_len], sums: [head_dim].
void one_query(const AttentionParams& p, int b, int i, int h, double* weights, double* sums) {
  const int kv_head = h / (p.q_heads / p.kv_heads);
  const int visible = visible_keys(p, i);
  const float* q = row_of(p.q, p.q_stride, b, i, h);
  double maximum = -std::numeric_limits<double>::infinity();
  for (int j = 0; j < visible; ++j) {
    const float* k = row_of(p.k, p.k_stride, b, j, kv_head);
    double dot = 0;
    for (int d = 0; d < p.head_dim; ++d) dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
    weights[j] = dot * static_cast<double>(p.scale);
    if (!(weights[j] <= maximum)) maximum = weights[j];  // a NaN becomes the maximum, and all that follows
  }
  double denominator = 0;
  for (int d = 0; d < p.head_dim; ++d) sums[d] = 0;
  for (int j = 0; j < visible; ++j) {
    const double weight = std::exp(weights[j] - maximum);
    const float* v = row_of(p.v, p.v_stride, b, j, kv_head);
    denominator += weight;
    for (int d = 0; d < p.head_dim; ++d) sums[d] += weight * static_cast<double>(v[d]);
  }
  float* out = row_of(p.out, p.out_stride, b, i, h);
  for (int d = 0; d < p.head_dim; ++d)
    out[d] = visible == 0 ? 0.0F : static_cast<float>(sums[d] / denominator);
  if (p.lse != nullptr) {
    p.lse[lse_index(p, b, i, h)] = visible == 0 ? -std::numeric_limits<float>::infinity()
                                                : static_cast<float>(maximum + std::log(denominator));
  }
}

}  // namespace

std::size_t attention_reference_workspace(const AttentionParams& p) {
  const auto doubles = static_cast<std::size_t>(p.kv_len) + static_cast<std::size_t>(p.head_dim);
  return static_cast<std::size_t>(omp_get_max_threads()) * doubles * sizeof(double);
}

void attention_reference(const AttentionParams& p, void* workspace) {
  const std::int64_t rows = static_cast<std::int64_t>(p.batch) * p.q_heads * p.q_len;
#pragma omp parallel for schedule(dynamic, 8)
  for (std::int64_t row = 0; row < rows; ++row) {
    double* weights = static_cast<double*>(workspace) +
                      omp_get_thread_num() * (static_cast<std::int64_t>(p.kv_len) + p.head_dim);
    const auto i = static_cast<int>(row % p.q_len);
    const auto h = static_cast<int>(row / p.q_len % p.q_heads);
    const auto b = static_cast<int>(row / p.q_len / p.q_heads);
    one_query(p, b, i, h, weights, weights + p.kv_len);
  }
}

}  // namespace attn::cpu
