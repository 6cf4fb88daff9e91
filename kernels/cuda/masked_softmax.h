// Causal mask and softmax of materialised scores, in place: the middle of mode baseline.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

// Row (b, h, i) of `scores` holds kv_len scaled scores in f32; it becomes their softmax over the keys that
// query i sees and 0 for the others, in `dtype`, at the row's beginning. A query that sees no key gets zeros.
struct MaskedSoftmax {
  float* scores;          // [batch * heads * q_len, row_step]
  std::int64_t row_step;  // in f32 elements, a multiple of 4; in `dtype` the rows are row_step * 4 /
                          // size_of(dtype) apart
  std::int64_t rows;
  int q_len, kv_len;
  bool causal;  // query i sees key j <= i + kv_len - q_len
  DType dtype;
  float* lse;  // [rows]: ln of the softmax denominator with the maximum put back; or null
};

cudaError_t masked_softmax(const MaskedSoftmax& args, cudaStream_t stream);

}  // namespace attn::cuda
