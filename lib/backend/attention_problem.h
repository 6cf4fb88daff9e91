// AttentionProblem: the sizes of one attention call, their check, and the work they mean.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/dtype.h"

namespace attn {

struct AttentionProblem {
  int batch = 1;
  int q_len = 1;
  int kv_len = 1;  // keys in all, cached ones included
  int q_heads = 1;
  int kv_heads = 1;  // divides q_heads: query head h reads key head h / (q_heads / kv_heads)
  int head_dim = 64;
  DType dtype = DType::f32;
  float scale = 0;     // of the scores; usually 1 / sqrt(head_dim)
  bool causal = true;  // query i sees key j <= i + kv_len - q_len

  std::string text() const;
};

// Throws Error{usage} naming the first field that is out of range.
void validate(const AttentionProblem& problem);

// Query-key pairs that are seen: all, or the causal part, exactly.
std::int64_t visible_pairs(const AttentionProblem& problem);
// Two products of 2 * head_dim flops a visible pair, over batch and query heads (softmax not counted, the
// field's convention). `executed` for a full matrix: every pair.
double model_flops(const AttentionProblem& problem);
double full_matrix_flops(const AttentionProblem& problem);
// Each of q, k, v read once and out written once: the least traffic.
double least_bytes(const AttentionProblem& problem);

}  // namespace attn
