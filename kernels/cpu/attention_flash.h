// Attention by tiles with online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): no score matrix in
// memory.
#pragma once

#include <cstddef>

#include "kernels/attention_params.h"

namespace attn::cpu {

// Few queries for one pass over K and V (decode), or many (prefill): two kernels of the same mode.
inline constexpr int kFlashFewQueries = 8;

inline bool is_flash_few(const AttentionParams& params) { return params.q_len <= kFlashFewQueries; }

// Bytes of scratch; many: one tile set a thread. few: partial results, O(rows * kv_len / 512 * head_dim).
std::size_t attention_flash_workspace(const AttentionParams& params);
void attention_flash(const AttentionParams& params, void* workspace);

// The kernel for few queries alone; attention_flash() calls it where is_flash_few().
std::size_t attention_flash_few_workspace(const AttentionParams& params);
void attention_flash_few(const AttentionParams& params, void* workspace);

}  // namespace attn::cpu
