// Random weights made where they lie.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/dtype.h"

namespace attn::cuda {

// Element i, counted row by row, becomes centre + scale * near_normal(mix_bits(base ^ i)): the functions of
// lib/core/rng.h, bit for bit, each operation rounded by itself.
struct RandomFill {
  void* out;  // [rows, columns]
  std::int64_t step, rows, columns;
  std::uint64_t base;
  float scale, centre;
  DType dtype;
};

cudaError_t random_fill(const RandomFill& args, cudaStream_t stream);

}  // namespace attn::cuda
