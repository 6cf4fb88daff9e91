// LayerNorm and RMSNorm of rows.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

struct Norm {
  const void* in;  // [rows, size]
  std::int64_t in_step;
  std::int64_t rows, size;
  const void* weight;  // [size]
  const void* bias;    // [size], or null
  float eps;
  bool centred;  // LayerNorm; else RMSNorm
  void* out;     // [rows, size]; may be `in`
  std::int64_t out_step;
  DType dtype;
};

// (x - mean) / sqrt(variance + eps) * weight + bias, or x / sqrt(mean square + eps) * weight (+ bias);
// statistics in f32, the variance from deviations.
cudaError_t norm(const Norm& args, cudaStream_t stream);

}  // namespace attn::cuda
