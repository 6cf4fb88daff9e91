// RandomFill: which numbers a random weight has, and their making on the host.
#pragma once

#include <cstdint>

#include "lib/tensor/tensor.h"

namespace attn {

// Element i of a tensor, counted row by row, is centre + scale * near_normal(mix_bits(base ^ i)) of
// lib/core/rng.h: one rounding after the product, one after the sum, one to the element type. The same bits
// on every device.
struct RandomFill {
  std::uint64_t base;
  float scale, centre;
};

// Writes rows [n, columns] on the host, which are rows first_row ... of the tensor.
void fill_rows(const TensorView& rows, std::int64_t first_row, const RandomFill& fill);

}  // namespace attn
