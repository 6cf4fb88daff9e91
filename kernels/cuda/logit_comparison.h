// What two rows of logits are apart.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/logit_comparison.h"

namespace attn::cuda {

struct CompareLogits {
  const float* base;  // [rows, vocab], rows base_step apart
  std::int64_t base_step;
  const float* other;  // [rows, vocab]
  std::int64_t other_step;
  std::int64_t rows, vocab;
  const std::int32_t* targets;  // [rows], targets_step apart; below 0, or null: none
  std::int64_t targets_step;
  LogitComparison* out;  // [rows]
};

// All in f64. The same bits in every call, wherever the rows lie.
cudaError_t compare_logits(const CompareLogits& args, cudaStream_t stream);

}  // namespace attn::cuda
