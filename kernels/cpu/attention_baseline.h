// Attention with materialised scores: product, masked softmax in place, product.
#pragma once

#include <cstddef>

#include "kernels/attention_params.h"

namespace attn::cpu {

// [batch, q_heads, q_len, kv_len] f32.
std::size_t attention_baseline_scores(const AttentionParams& params);
void attention_baseline(const AttentionParams& params, float* scores);

}  // namespace attn::cpu
