// Attention with materialised scores, both products by OpenBLAS.
#include "kernels/cpu/attention_baseline.h"

#include <cblas.h>
#include <omp.h>

#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/masked_softmax.h"
#include "kernels/cpu/threads.h"

namespace attn::cpu {

namespace {

// Query rows that share one key head and one product: the q_len rows of a head, or with one query the heads
// of a group.
struct RowBlock {
  int batch, first_head, kv_head, rows;
  std::int64_t q_step, out_step;  // between rows, in elements
};

float* scores_of(const AttentionParams& p, float* scores, const RowBlock& block) {
  return scores +
         (static_cast<std::int64_t>(block.batch) * p.q_heads + block.first_head) * p.q_len * p.kv_len;
}

void query_key_product(const AttentionParams& p, const RowBlock& block, float* scores) {
  const float* q = row_of(p.q, p.q_stride, block.batch, 0, block.first_head);
  const float* k = row_of(p.k, p.k_stride, block.batch, 0, block.kv_head);
  const int ldk = static_cast<int>(p.k_stride.token);
  if (block.rows == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, p.kv_len, p.head_dim, p.scale, k, ldk, q, 1, 0.0F, scores, 1);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, block.rows, p.kv_len, p.head_dim, p.scale, q,
                static_cast<int>(block.q_step), k, ldk, 0.0F, scores, p.kv_len);
  }
}

void softmax_row(const AttentionParams& p, const RowBlock& block, float* scores, int row) {
  const int query = p.q_len == 1 ? 0 : row;
  const int head = p.q_len == 1 ? block.first_head + row : block.first_head;
  const float lse = masked_softmax_row(scores + static_cast<std::int64_t>(row) * p.kv_len,
                                       visible_keys(p, query), p.kv_len);
  if (p.lse != nullptr) p.lse[lse_index(p, block.batch, query, head)] = lse;
}

void weight_value_product(const AttentionParams& p, const RowBlock& block, const float* scores) {
  const float* v = row_of(p.v, p.v_stride, block.batch, 0, block.kv_head);
  float* out = row_of(p.out, p.out_stride, block.batch, 0, block.first_head);
  const int ldv = static_cast<int>(p.v_stride.token);
  if (block.rows == 1) {
    cblas_sgemv(CblasRowMajor, CblasTrans, p.kv_len, p.head_dim, 1.0F, v, ldv, scores, 1, 0.0F, out, 1);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, block.rows, p.head_dim, p.kv_len, 1.0F, scores,
                p.kv_len, v, ldv, 0.0F, out, static_cast<int>(block.out_step));
  }
}

}  // namespace

std::size_t attention_baseline_scores(const AttentionParams& p) {
  return static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.q_heads) *
         static_cast<std::size_t>(p.q_len) * static_cast<std::size_t>(p.kv_len) * sizeof(float);
}

void attention_baseline(const AttentionParams& p, float* scores) {
  const int group = p.q_heads / p.kv_heads;
  const bool by_group = p.q_len == 1;
  const int blocks_per_sequence = by_group ? p.kv_heads : p.q_heads;
  const int blocks = p.batch * blocks_per_sequence;
  const auto block_at = [&](int index) {
    const int b = index / blocks_per_sequence;
    const int n = index % blocks_per_sequence;
    if (by_group) return RowBlock{b, n * group, n, group, p.q_stride.head, p.out_stride.head};
    return RowBlock{b, n, n / group, p.q_len, p.q_stride.token, p.out_stride.token};
  };

  if (blocks >= omp_get_max_threads()) {  // a head a thread keeps its scores near its core
    const SingleThreadedBlas single;
#pragma omp parallel for schedule(dynamic)
    for (int index = 0; index < blocks; ++index) {
      const RowBlock block = block_at(index);
      float* own = scores_of(p, scores, block);
      query_key_product(p, block, own);
      for (int row = 0; row < block.rows; ++row) softmax_row(p, block, own, row);
      weight_value_product(p, block, own);
    }
    return;
  }
  for (int index = 0; index < blocks; ++index) {
    const RowBlock block = block_at(index);
    float* own = scores_of(p, scores, block);
    query_key_product(p, block, own);
#pragma omp parallel for schedule(static)
    for (int row = 0; row < block.rows; ++row) softmax_row(p, block, own, row);
    weight_value_product(p, block, own);
  }
}

}  // namespace attn::cpu
