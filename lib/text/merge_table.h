// MergeTable: the byte-pair merges of a tokenizer, and their application to one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/text/token.h"

namespace attn {

struct Merge {
  TokenId left, right, merged;
};

class MergeTable {
 public:
  // In the order of their rank: an earlier merge is done before a later one. Ids are not negative.
  explicit MergeTable(std::span<const Merge> merges);

  // The position of the first merge whose pair came before, or -1: such a list contradicts itself.
  std::ptrdiff_t duplicate() const { return duplicate_; }

  // Merges `ids` in place until no pair of neighbours is in the table: always the pair of the lowest rank,
  // the leftmost of equals. Time n log n for long pieces.
  void apply(std::vector<TokenId>& ids) const;

 private:
  struct Slot {
    std::uint64_t pair;  // left << 32 | right; kFree where empty
    std::uint32_t rank;
    TokenId merged;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  static std::uint64_t pair_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  const Slot& slot_of(std::uint64_t pair) const;  // the slot of the pair, or a free one
  void apply_short(std::vector<TokenId>& ids) const;
  void apply_long(std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  int shift_ = 0;
  std::ptrdiff_t duplicate_ = -1;
};

}  // namespace attn
