// Products of few rows (a decode step) with weight matrices, f16 and bf16: bound by reading the weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/cuda/activation.h"
#include "kernels/dtype.h"

namespace attn::cuda {

inline constexpr int kSkinnyMaxRows = 8;

// Rows of one weight matrix and what becomes of them.
struct SkinnyPart {
  const void* weight;        // [size, inner]; gated: [2 * size, inner], gate rows first
  std::int64_t weight_step;  // elements between rows
  int size;
  const void* bias;         // [size] (gated: [2 * size]), or null
  const void* second_bias;  // [size], or null; not with gated
  const void* norm_weight;  // [inner]; null where SkinnyProduct::normed is false
  const void* norm_bias;    // [inner], or null
  Function function;
  bool gated;  // out = function(gate) * up
  void* out;   // [rows, size]
  std::int64_t out_step;
};

// out = function(norm(in) weight^T + bias) for each part, or out += in weight^T + bias.
struct SkinnyProduct {
  const void* in;  // [rows, inner]
  std::int64_t in_step;
  int rows, inner;
  // Columns of `in` before this one are taken to be written by the kernel before this one in the stream,
  // those from it on by an earlier one, so that work on these may begin before the previous kernel has ended.
  // inner: the whole of `in` is new. A multiple of 32 above 0; without meaning if `normed`.
  int late_columns;
  bool normed;
  bool centred;  // LayerNorm; else RMSNorm
  float eps;
  SkinnyPart parts[2];
  int part_count;
  bool add;        // to out, whose old values are taken to be older than the previous kernel
  bool float_out;  // out is f32; else `dtype`
  DType dtype;
};

// Limits of a GPU.
struct SkinnyLimits {
  int sm_count, compute_capability;
  std::size_t block_shared_bytes;
};

// Whether skinny_product() takes it: rows, alignment (16 bytes), inner a multiple of 32, shared memory.
bool fits_skinny_product(const SkinnyProduct& product, const SkinnyLimits& limits);
// Rows do not influence each other: a row's bits are the same alone and among others.
cudaError_t skinny_product(const SkinnyProduct& product, const SkinnyLimits& limits, cudaStream_t stream);

}  // namespace attn::cuda
