// Product: one matrix product as the libraries of a GPU are asked for it.
#pragma once

#include <cstdint>

#include <library_types.h>

#include "kernels/dtype.h"
#include "lib/core/error.h"

namespace attn {

// Row-major: out [rows, columns] = f(alpha * in [rows, inner] * other^T + beta * out + bias), where `other`
// is [columns, inner]; with other_transposed it is [inner, columns] and not transposed. Steps are elements
// between rows.
struct Product {
  std::int64_t rows, columns, inner;
  const void* in;
  std::int64_t in_step;
  const void* other;
  std::int64_t other_step;
  bool other_transposed = false;
  void* out;
  std::int64_t out_step;
  DType dtype;  // of in and other
  DType out_dtype;
  float alpha = 1;
  float beta = 0;
  const void* bias = nullptr;  // [columns] in out_dtype, or null
  bool gelu_tanh = false;      // f is that form of GELU (needs a bias and beta 0); else it is nothing
};

// As the libraries name it.
inline cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::i32: break;
  }
  fail(ErrorKind::internal, "no matrix product of i32");
}

}  // namespace attn
