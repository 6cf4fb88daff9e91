// Which bucket a position falls into.
#include "lib/eval/position_buckets.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {
namespace {

constexpr std::int64_t kFirstBucket = 16;

}  // namespace

std::string PositionBucket::name() const { return fmt::format("{}-{}", first_seen, last_seen); }

BucketedDivergence::BucketedDivergence(std::int64_t context, std::optional<std::int64_t> error_block_tokens)
    : all_(error_block_tokens ? Divergence(*error_block_tokens) : Divergence()) {
  if (context < 1) fail(ErrorKind::internal, "there are no positions in a context of {}", context);
  std::int64_t first = 1;
  for (std::int64_t last = kFirstBucket; first <= context; last *= 2) {
    buckets_.push_back({first, std::min(last, context), all_});
    first = last + 1;
  }
}

void BucketedDivergence::add(std::int64_t position, const RowDivergence& row) {
  const std::int64_t seen = position + 1;
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end(),
                                   [&](const PositionBucket& b) { return seen <= b.last_seen; });
  if (seen < 1 || bucket == buckets_.end())
    fail(ErrorKind::internal, "position {} is outside the context of {}", position,
         buckets_.back().last_seen);
  all_.add(position, row);
  bucket->divergence.add(position, row);
}

}  // namespace attn
