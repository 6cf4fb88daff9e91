// Failures of CUDA and cuBLAS as Errors.
#include "lib/backend_cuda/cuda_check.h"

#include "lib/core/error.h"

namespace attn {

void throw_cuda_error(cudaError_t error, const char* expression, const char* file, int line) {
  cudaGetLastError();  // else the next launch would report it again
  const ErrorKind kind = error == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device;
  fail(kind, "CUDA: {} ({}) from {} at {}:{}", cudaGetErrorName(error), cudaGetErrorString(error), expression,
       file, line);
}

void throw_cublas_error(cublasStatus_t status, const char* expression, const char* file, int line) {
  const ErrorKind kind = status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::out_of_memory : ErrorKind::device;
  fail(kind, "cuBLAS: {} ({}) from {} at {}:{}", cublasGetStatusName(status), cublasGetStatusString(status),
       expression, file, line);
}

}  // namespace attn
