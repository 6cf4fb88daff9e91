// How far logits computed in a type may lie from exact ones, derived from the type and the depth.
#pragma once

#include <cmath>

#include "kernels/dtype.h"

namespace attn {

// Of one rounding to the type.
inline double roundoff_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// Of the largest logit. 16 bits: a layer rounds about a dozen times, each by a unit roundoff u at most: six
// matrices (when they are loaded) and six activations (norms, q k v, weights of attention, its output, hidden
// layer, residual); embedding, last norm and head four times more. Independent errors add up as the root of
// their number, and the largest of a thousand logits lies four deviations out. Rounding the weights alone,
// half of all this, moves the logits of the golden models by up to 10.5 u where attention is sharp; for their
// two layers this allows 21 u. f32: measured differences are below a tenth of this.
inline double logit_tolerance(DType dtype, int layers) {
  return dtype == DType::f32 ? 1e-4 : 4 * roundoff_of(dtype) * std::sqrt(12.0 * layers + 4);
}

}  // namespace attn
