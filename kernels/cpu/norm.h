// LayerNorm and RMSNorm of rows.
#pragma once

#include <cstdint>

namespace attn::cpu {

struct Norm {
  const float* in;  // [rows, size]
  std::int64_t in_step;
  std::int64_t rows, size;
  const float* weight;  // [size]
  const float* bias;    // [size], or null
  float eps;
  float* out;  // [rows, size]; may be `in`
  std::int64_t out_step;
};

// (x - mean) / sqrt(variance + eps) * weight + bias; the variance is the mean square deviation. Sums in
// double.
void layer_norm(const Norm& norm);
// x / sqrt(mean square + eps) * weight (+ bias). Sums in double.
void rms_norm(const Norm& norm);

}  // namespace attn::cpu
