// How far logits computed in a type may lie from exact ones, derived from the type and the depth.
#pragma once

#include <cmath>

#include "kernels/dtype.h"

namespace attn {

// Of the largest logit. 16 bits: a layer rounds about a dozen times, each once by a unit roundoff u at most:
// six matrices (at loading) and six activations (norms, q k v, weights of attention, its output, hidden
// layer, residual); embedding, last norm and head four times more. Roundings are independent and add up as
// their root; the factor 2 is for layers that amplify and for the largest of many logits. f32: measured, and
// above it by 10.
inline double logit_tolerance(DType dtype, int layers) {
  const double u = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  return dtype == DType::f32 ? 1e-4 : 2 * u * std::sqrt(12.0 * layers + 4);
}

}  // namespace attn
