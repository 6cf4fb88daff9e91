// The activation functions on the device.
#pragma once

#include "kernels/cuda/activation.h"

namespace attn::cuda {

// The branches are the same for all threads.
__device__ __forceinline__ float apply(Function function, float x) {
  switch (function) {
    case Function::gelu_erf: return x * normcdff(x);
    case Function::gelu_tanh: return x / (1.0F + expf(-x * (1.5957691216F + 0.0713548163F * x * x)));
    case Function::relu: return x < 0.0F ? 0.0F : x;
    case Function::silu: return x / (1.0F + expf(-x));
    default: return x;
  }
}

}  // namespace attn::cuda
