// Rows: a tensor as evenly spaced rows of its last axis, as kernels over rows take it.
#pragma once

#include "lib/tensor/tensor.h"

namespace attn {

struct Rows {
  std::int64_t count, size, step;  // step in elements
};

// Throws Error{internal} unless all axes before the last step evenly.
Rows rows_of(const TensorView& view);

}  // namespace attn
