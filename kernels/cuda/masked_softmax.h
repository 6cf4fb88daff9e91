// Causal mask and softmax of materialised scores, in place: the middle of mode baseline.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

// Rows of scores begin at multiples of this many bytes.
inline constexpr std::int64_t kScoreRowBytes = 32;

// Row (b, h, i) of `scores` holds kv_len scaled scores; it becomes their softmax over the keys that query i
// sees and 0 for the others, in `dtype`, at the row's beginning. Computed in f32. A query that sees no key
// gets zeros.
struct MaskedSoftmax {
  void* scores;           // [batch * heads * q_len, row_step] in score_dtype
  std::int64_t row_step;  // in elements of score_dtype; in `dtype` the rows are as many bytes apart
  std::int64_t rows;
  int q_len, kv_len;
  bool causal;        // query i sees key j <= i + keys - q_len
  DType score_dtype;  // f32, or `dtype`
  DType dtype;        // of the softmax
  float* lse;         // [rows]: ln of the softmax denominator with the maximum put back; or null
  // Where given, on the device: the keys are the first *past_len + q_len, at most kv_len; the weights of the
  // others are 0.
  const std::int32_t* past_len = nullptr;
};

cudaError_t masked_softmax(const MaskedSoftmax& args, cudaStream_t stream);

}  // namespace attn::cuda
