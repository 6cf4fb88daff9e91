// AttentionProblem and tensors, checked, as the plain struct that kernels take.
#pragma once

#include "kernels/attention_params.h"
#include "lib/backend/attention.h"

namespace attn {

// Sizes alone; pointers null.
AttentionParams attention_sizes(const AttentionProblem& problem);
// Throws Error{internal} where a tensor's shape or type is not the problem's.
AttentionParams attention_params(const AttentionProblem& problem, const AttentionTensors& tensors);

}  // namespace attn
