// Attention by its definition, in double: the truth that every other kernel is compared to.
#pragma once

#include <cstddef>

#include "kernels/attention_params.h"

namespace attn::cpu {

// One row of kv_len doubles and one of head_dim a thread.
std::size_t attention_reference_workspace(const AttentionParams& params);
void attention_reference(const AttentionParams& params, void* workspace);

}  // namespace attn::cpu
