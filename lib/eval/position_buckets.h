// BucketedDivergence: a divergence in all, and by how much context the predictions had.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/eval/divergence.h"

namespace attn {

// Predictions that saw first_seen ... last_seen tokens.
struct PositionBucket {
  std::int64_t first_seen = 1, last_seen = 1;
  Divergence divergence;
  std::string name() const;  // "17-32"
};

// Buckets 1-16, 17-32, 33-64, ... by powers of two; the last ends at the context.
class BucketedDivergence {
 public:
  // error_block_tokens: of PairedRatio; nothing: each figure's own. Throws Error{internal} for a context
  // below 1.
  explicit BucketedDivergence(std::int64_t context,
                              std::optional<std::int64_t> error_block_tokens = std::nullopt);

  // `position`: of the row of logits in its window, from 0: it saw position + 1 tokens.
  void add(std::int64_t position, const RowDivergence& row);
  const Divergence& all() const { return all_; }
  std::span<const PositionBucket> buckets() const { return buckets_; }  // some may have no rows

 private:
  Divergence all_;
  std::vector<PositionBucket> buckets_;
};

}  // namespace attn
