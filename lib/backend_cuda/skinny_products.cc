// From tensors to the arguments of the skinny kernel.
#include "lib/backend_cuda/skinny_products.h"

#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"
#include "lib/tensor/rows.h"

namespace attn {

namespace {

// The input's side of a product; false where the kernel does not take it.
bool set_input(const TensorView& in, cuda::SkinnyProduct& product) {
  const Rows rows = rows_of(in);
  if (rows.count < 1 || rows.count > cuda::kSkinnyMaxRows) return false;
  product.in = in.data;
  product.in_step = rows.step;
  product.rows = static_cast<int>(rows.count);
  product.inner = static_cast<int>(rows.size);
  product.late_columns = product.inner;
  product.dtype = in.dtype;
  return true;
}

void set_norm(const NormWeights& norm, cuda::SkinnyProduct& product, cuda::SkinnyPart& part) {
  product.normed = true;
  product.centred = norm.kind == NormKind::layer_norm;
  product.eps = norm.eps;
  part.norm_weight = norm.weight.data;
  part.norm_bias = norm.bias.data;
}

cuda::SkinnyPart part_of(const TensorView& weight, const TensorView& out,
                         const cuda::SkinnyProduct& product) {
  const Rows rows = rows_of(out);
  if (weight.extent(1) != product.inner || rows.count != product.rows || weight.dtype != product.dtype) {
    fail(ErrorKind::internal, "product: weight {} does not fit out {} of {} rows", weight.shape.text(),
         out.shape.text(), product.rows);
  }
  cuda::SkinnyPart part{};
  part.weight = weight.data;
  part.weight_step = weight.stride(0);
  part.size = static_cast<int>(rows.size);
  part.out = out.data;
  part.out_step = rows.step;
  return part;
}

}  // namespace

cuda::Function function_of(Activation activation) {
  switch (activation) {
    case Activation::none: return cuda::Function::none;
    case Activation::gelu_erf: return cuda::Function::gelu_erf;
    case Activation::gelu_tanh: return cuda::Function::gelu_tanh;
    case Activation::relu: return cuda::Function::relu;
    case Activation::silu: return cuda::Function::silu;
  }
  fail(ErrorKind::internal, "activation {} has no kernel", static_cast<int>(activation));
}

SkinnyProducts::SkinnyProducts(CudaDevice& device)
    : device_(device), limits_{device.sm_count(), device.compute_capability(), device.block_shared_bytes()} {}

bool SkinnyProducts::run(const cuda::SkinnyProduct& product) {
  if (!cuda::fits_skinny_product(product, limits_)) return false;
  ATTN_CUDA(cuda::skinny_product(product, limits_, device_.stream()));
  return true;
}

bool SkinnyProducts::project(const TensorView& x, std::span<const ProjectTerm> terms) {
  cuda::SkinnyProduct product{};
  if (terms.empty() || terms.size() > 2 || !set_input(x, product)) return false;
  for (const ProjectTerm& term : terms) {
    if (term.norm->kind != terms[0].norm->kind || term.norm->eps != terms[0].norm->eps ||
        term.out.dtype != x.dtype)
      return false;
    cuda::SkinnyPart& part = product.parts[product.part_count++];
    part = part_of(term.linear->weight, term.out, product);
    set_norm(*term.norm, product, part);
    if (term.linear->weight.extent(0) != std::int64_t{part.size} * (term.gated ? 2 : 1))
      fail(ErrorKind::internal, "product: weight {} does not fit out {}", term.linear->weight.shape.text(),
           term.out.shape.text());
    part.bias = term.linear->bias.data;
    part.function = function_of(term.activation);
    part.gated = term.gated;
  }
  return run(product);
}

bool SkinnyProducts::add(const TensorView& x, const TensorView& in, const TensorView& weight,
                         const TensorView& bias, const TensorView& second_bias, std::int64_t late_columns) {
  cuda::SkinnyProduct product{};
  if (x.dtype != in.dtype || !set_input(in, product)) return false;
  product.late_columns = static_cast<int>(late_columns);
  product.part_count = 1;
  product.parts[0] = part_of(weight, x, product);
  product.parts[0].bias = bias.data;
  product.parts[0].second_bias = second_bias.data;
  product.add = true;
  return run(product);
}

bool SkinnyProducts::logits(const TensorView& x, const NormWeights& norm, const LinearWeights& head,
                            const TensorView& out) {
  cuda::SkinnyProduct product{};
  if (!head.bias.empty() || !set_input(x, product)) return false;
  product.part_count = 1;
  product.parts[0] = part_of(head.weight, out, product);
  set_norm(norm, product, product.parts[0]);
  product.float_out = true;
  return run(product);
}

}  // namespace attn
