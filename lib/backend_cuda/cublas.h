// Cublas: matrix products by cuBLAS on a device's stream, f32 accumulation, a workspace that the ledger
// counts.
#pragma once

#include <cstdint>

#include <cublas_v2.h>

#include "kernels/dtype.h"
#include "lib/backend_cuda/cuda_device.h"

namespace attn {

// Row-major: out [rows, columns] = alpha * in [rows, inner] * other^T + beta * out, where `other` is
// [columns, inner]; with other_transposed it is [inner, columns] and not transposed. Steps are elements
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
};

class Cublas {
 public:
  explicit Cublas(CudaDevice& device);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void multiply(const Product& product);
  // `count` products whose matrices lie evenly apart, in elements.
  void multiply_strided(const Product& product, std::int64_t in_apart, std::int64_t other_apart,
                        std::int64_t out_apart, std::int64_t count);
  // `count` products whose matrices are given by arrays of pointers on the device; those of `product` are
  // unused.
  void multiply_pointers(const Product& product, const void* const* in, const void* const* other,
                         void* const* out, std::int64_t count);

 private:
  Buffer workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace attn
