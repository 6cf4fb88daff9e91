// Writing of all weights in parallel, into memory of the host or of another device.
#pragma once

#include <functional>
#include <optional>
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
  // Where given, what `fill` writes, for a device that can make it itself.
  std::optional<RandomFill> random = std::nullopt;
};

// Runs all writes and waits for the device; the targets must lie in weights.storage. Where the device's
// memory is the host's the rows are written in place. Else they are filled and uploaded in pieces of at most
// `piece_bytes`, one under way while the next is filled. Throws what `fill` throws.
void write_weights(Device& device, const ModelWeights& weights, const std::vector<WeightWrite>& writes,
                   std::size_t piece_bytes = kFilledBytes);

}  // namespace attn
