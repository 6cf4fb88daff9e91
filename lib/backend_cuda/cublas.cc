// Matrix products: single ones by cuBLASLt, batches by cuBLAS.
//
// cuBLAS counts columns first, so a row-major matrix is its transpose: out^T = other in^T.
#include "lib/backend_cuda/cublas.h"

#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"

namespace attn {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper

// cuBLAS takes 32-bit sizes and steps.
int whole(std::int64_t value) {
  if (value < 0 || value > INT32_MAX)
    fail(ErrorKind::unsupported, "a matrix of extent {} is too large for cuBLAS", value);
  return static_cast<int>(value);
}

cublasOperation_t operation(const Product& p) { return p.other_transposed ? CUBLAS_OP_N : CUBLAS_OP_T; }

}  // namespace

Cublas::Cublas(CudaDevice& device)
    : workspace_(device.allocate(kWorkspaceBytes, MemoryUse::workspace)),
      lt_(device, workspace_.data(), workspace_.bytes()) {
  ATTN_CUBLAS(cublasCreate(&handle_));
  ATTN_CUBLAS(cublasSetStream(handle_, device.stream()));
  ATTN_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(),
                                 workspace_.bytes()));  // after the stream, which resets it
  // Partial sums of a split product stay in f32 too.
  ATTN_CUBLAS(cublasSetMathMode(
      handle_,
      static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
}

Cublas::~Cublas() {
  if (handle_ != nullptr) cublasDestroy(handle_);
}

void Cublas::multiply(const Product& p) {
  if (p.bias != nullptr) fail(ErrorKind::internal, "a product with a bias is for multiply_biased()");
  if (lt_.multiply(p)) return;
  ATTN_CUBLAS(cublasGemmEx(handle_, operation(p), CUBLAS_OP_N, whole(p.columns), whole(p.rows),
                           whole(p.inner), &p.alpha, p.other, data_type(p.dtype), whole(p.other_step), p.in,
                           data_type(p.dtype), whole(p.in_step), &p.beta, p.out, data_type(p.out_dtype),
                           whole(p.out_step), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void Cublas::multiply_strided(const Product& p, std::int64_t in_apart, std::int64_t other_apart,
                              std::int64_t out_apart, std::int64_t count) {
  ATTN_CUBLAS(cublasGemmStridedBatchedEx(
      handle_, operation(p), CUBLAS_OP_N, whole(p.columns), whole(p.rows), whole(p.inner), &p.alpha, p.other,
      data_type(p.dtype), whole(p.other_step), other_apart, p.in, data_type(p.dtype), whole(p.in_step),
      in_apart, &p.beta, p.out, data_type(p.out_dtype), whole(p.out_step), out_apart, whole(count),
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void Cublas::multiply_pointers(const Product& p, const void* const* in, const void* const* other,
                               void* const* out, std::int64_t count) {
  ATTN_CUBLAS(cublasGemmBatchedEx(
      handle_, operation(p), CUBLAS_OP_N, whole(p.columns), whole(p.rows), whole(p.inner), &p.alpha, other,
      data_type(p.dtype), whole(p.other_step), in, data_type(p.dtype), whole(p.in_step), &p.beta, out,
      data_type(p.out_dtype), whole(p.out_step), whole(count), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace attn
