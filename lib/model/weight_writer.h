// Writing of all weights in parallel, into memory of the host or of another device.
#pragma once

#include <functional>
#include <vector>

#include "lib/backend/device.h"
#include "lib/model/weights.h"

namespace attn {

// Fills rows of one weight. `target` is [rows, columns], or [columns]: one row.
struct WeightWrite {
  TensorView target;
  // Writes `rows` [n, columns], which lie in host memory and are rows first_row ... of `target`; called from
  // many threads at once for different rows.
  std::function<void(const TensorView& rows, std::int64_t first_row)> fill;
};

// Runs all writes; the targets must lie in weights.storage. Where the device's memory is the host's the rows
// are written in place; else one buffer at a time is filled on the host and uploaded. Throws what `fill`
// throws.
void write_weights(Device& device, const ModelWeights& weights, const std::vector<WeightWrite>& writes);

}  // namespace attn
