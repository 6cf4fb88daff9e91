// SkinnyProducts: the products of a decode step, up to 8 rows in f16 or bf16, by our own kernel.
#pragma once

#include <span>

#include "kernels/cuda/skinny_product.h"
#include "lib/backend/ops.h"
#include "lib/backend_cuda/cuda_device.h"

namespace attn {

// Each method does what Ops' method of that name does, in one launch, or returns false with nothing done
// where the kernel does not take the sizes.
class SkinnyProducts {
 public:
  explicit SkinnyProducts(CudaDevice& device);

  // Norms, products, biases and activations of all terms.
  bool project(const TensorView& x, std::span<const ProjectTerm> terms);
  // x += in weight^T + biases. Columns of `in` from `late_columns` on were complete before the last
  // operation.
  bool add(const TensorView& x, const TensorView& in, const TensorView& weight, const TensorView& bias,
           const TensorView& second_bias, std::int64_t late_columns);
  bool logits(const TensorView& x, const NormWeights& norm, const LinearWeights& head, const TensorView& out);

 private:
  bool run(const cuda::SkinnyProduct& product);

  CudaDevice& device_;
  cuda::SkinnyLimits limits_;
};

// As the kernels name it.
cuda::Function function_of(Activation activation);

}  // namespace attn
