// ATTN_CUDA and ATTN_CUBLAS: a call of CUDA or cuBLAS whose failure becomes an Error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

namespace attn {

// Throw Error{out_of_memory} where memory was asked and not there, else Error{device}; the message names the
// expression, its place, and the error's name and text.
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* expression, const char* file, int line);
[[noreturn]] void throw_cublas_error(cublasStatus_t status, const char* expression, const char* file,
                                     int line);

}  // namespace attn

#define ATTN_CUDA(expression)                                                                             \
  do {                                                                                                    \
    const cudaError_t attn_error = (expression);                                                          \
    if (attn_error != cudaSuccess) ::attn::throw_cuda_error(attn_error, #expression, __FILE__, __LINE__); \
  } while (false)

#define ATTN_CUBLAS(expression)                                                 \
  do {                                                                          \
    const cublasStatus_t attn_status = (expression);                            \
    if (attn_status != CUBLAS_STATUS_SUCCESS)                                   \
      ::attn::throw_cublas_error(attn_status, #expression, __FILE__, __LINE__); \
  } while (false)
