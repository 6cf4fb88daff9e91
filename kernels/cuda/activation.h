// What follows a matrix product: biases and activation functions.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

// gelu_erf: x Phi(x). gelu_tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. silu: x / (1 + e^-x).
enum class Function : unsigned char { none, gelu_erf, gelu_tanh, relu, silu };

// x = function(x + bias + second_bias), in place, computed in f32.
struct BiasActivation {
  void* x;  // [rows, size]
  std::int64_t step, rows, size;
  const void* bias;         // [size], or null
  const void* second_bias;  // [size], or null
  Function function;
  DType dtype;
};
cudaError_t bias_activation(const BiasActivation& args, cudaStream_t stream);

// out = function(gate + its bias) * (up + its bias), in f32, rounded once.
struct GatedActivation {
  const void* wide;  // [rows, 2 * size]: gate, then up
  std::int64_t wide_step;
  const void* bias;  // [2 * size], or null
  Function function;
  void* out;  // [rows, size]
  std::int64_t out_step, rows, size;
  DType dtype;
};
cudaError_t gated_activation(const GatedActivation& args, cudaStream_t stream);

// out = a + b, rounded once.
struct VectorSum {
  const void* a;  // [size]
  const void* b;  // [size]
  void* out;      // [size]
  std::int64_t size;
  DType dtype;
};
cudaError_t add_vectors(const VectorSum& args, cudaStream_t stream);

}  // namespace attn::cuda
