// Cublas: matrix products by cuBLAS and cuBLASLt on a device's stream, f32 accumulation, one workspace that
// the ledger counts.
#pragma once

#include <cstdint>

#include <cublas_v2.h>

#include "lib/backend_cuda/cuda_device.h"
#include "lib/backend_cuda/lt_products.h"
#include "lib/backend_cuda/product.h"

namespace attn {

class Cublas {
 public:
  explicit Cublas(CudaDevice& device);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // By cuBLASLt, or where that has no algorithm (odd alignments) by cuBLAS. Without bias.
  void multiply(const Product& product);
  // With bias, in the product's own last step. False, with nothing done, where the library cannot.
  bool multiply_biased(const Product& product) { return lt_.multiply(product); }
  // `count` products whose matrices lie evenly apart, in elements.
  void multiply_strided(const Product& product, std::int64_t in_apart, std::int64_t other_apart,
                        std::int64_t out_apart, std::int64_t count);
  // `count` products whose matrices are given by arrays of pointers on the device; those of `product` are
  // unused.
  void multiply_pointers(const Product& product, const void* const* in, const void* const* other,
                         void* const* out, std::int64_t count);

  // What cuBLASLt was asked for so far.
  std::vector<ProductRecord> choices() const { return lt_.choices(); }

 private:
  Buffer workspace_;  // one: all work is on one stream
  LtProducts lt_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace attn
