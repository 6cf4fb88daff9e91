// Products of activations with a weight matrix: a kernel for few rows that streams the weights once, OpenBLAS
// for many.
#pragma once

#include <cstdint>

#include "kernels/cpu/activation.h"

namespace attn::cpu {

// Up to so many rows the product is bound by reading the weights.
inline constexpr std::int64_t kFewRows = 8;

struct Linear {
  const float* in;  // [rows, in_size]
  std::int64_t in_step;
  std::int64_t rows, in_size, out_size;
  const float* weight;  // [out_size, in_size]; gated: [2 * out_size, in_size], gate rows first
  std::int64_t weight_step;
  const float* bias;  // [out_size] (gated: [2 * out_size]), or null
  float* out;         // [rows, out_size]
  std::int64_t out_step;
  ActivationFunction activation;  // or null
};

// out = activation(in W^T + bias).
void linear(const Linear& product);
// out = activation(gate) * up. wide: scratch [rows, 2 * out_size], used when rows > kFewRows.
void linear_gated(const Linear& product, float* wide);
// out += in W^T + bias; no activation.
void linear_add(const Linear& product);

}  // namespace attn::cpu
