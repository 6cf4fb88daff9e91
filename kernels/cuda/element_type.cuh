// The instance of a launch for an element type.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/convert.cuh"
#include "kernels/dtype.h"

namespace attn::cuda {

// call(element), where element is a float, Half or BFloat whose type alone matters.
template <typename Call>
cudaError_t for_element_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::f32: return call(float());
    case DType::f16: return call(Half());
    case DType::bf16: return call(BFloat());
    case DType::i32: break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace attn::cuda
