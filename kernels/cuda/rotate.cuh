// One pair of a rotary embedding, rounded alike in every kernel that turns.
#pragma once

#include <cuda_runtime.h>

namespace attn::cuda {

struct TurnedPair {
  float first, second;
};

// (x, y) turned by the angle whose cosine and sine are given. The intrinsics fix which products are fused.
__device__ __forceinline__ TurnedPair turn_pair(float x, float y, float cosine, float sine) {
  return {__fmaf_rn(x, cosine, -__fmul_rn(y, sine)), __fmaf_rn(y, cosine, __fmul_rn(x, sine))};
}

}  // namespace attn::cuda
