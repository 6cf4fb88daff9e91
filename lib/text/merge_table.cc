// Byte-pair merging over ids: a flat hash of pairs, a plain scan for short pieces and a heap for long ones.
#include "lib/text/merge_table.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

namespace attn {

namespace {

constexpr std::size_t kShort = 32;  // symbols up to which rescanning all ranks beats a heap

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges) {
  int bits = 4;
  while ((std::size_t{1} << bits) < 2 * merges.size()) ++bits;
  shift_ = 64 - bits;
  slots_.assign(std::size_t{1} << bits, Slot{kFree, kNoRank, 0});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    Slot& slot = const_cast<Slot&>(slot_of(pair));
    if (slot.pair == pair) {
      if (duplicate_ < 0) duplicate_ = static_cast<std::ptrdiff_t>(rank);
      continue;
    }
    slot = {pair, static_cast<std::uint32_t>(rank), merges[rank].merged};
  }
}

const MergeTable::Slot& MergeTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (pair * 0x9e3779b97f4a7c15ULL) >> shift_;
  while (slots_[i].pair != pair && slots_[i].pair != kFree) i = (i + 1) & mask;
  return slots_[i];
}

void MergeTable::apply(std::vector<TokenId>& ids) const {
  ids.size() <= kShort ? apply_short(ids) : apply_long(ids);
}

void MergeTable::apply_short(std::vector<TokenId>& ids) const {
  std::size_t n = ids.size();
  if (n < 2) return;
  std::array<std::uint32_t, kShort> rank;  // rank[i]: of the pair (i, i + 1)
  std::array<TokenId, kShort> merged;      // and what it becomes
  const auto look_up = [&](std::size_t i) {
    const Slot& slot = slot_of(pair_of(ids[i], ids[i + 1]));
    rank[i] = slot.rank;
    merged[i] = slot.merged;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (rank[i] < rank[best]) best = i;
    }
    if (rank[best] == kNoRank) break;
    ids[best] = merged[best];
    --n;
    for (std::size_t i = best + 1; i < n; ++i) {
      ids[i] = ids[i + 1];
      rank[i - 1] = rank[i];
      merged[i - 1] = merged[i];
    }
    if (best + 1 < n) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids.resize(n);
}

void MergeTable::apply_long(std::vector<TokenId>& ids) const {
  struct Symbol {
    std::size_t previous, next;
    bool alive;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    std::uint64_t pair;  // the pair it was made for: out of date if the symbols have changed since
    TokenId merged;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const std::size_t n = ids.size();
  std::vector<Symbol> symbols(n);
  for (std::size_t i = 0; i < n; ++i)
    symbols[i] = {i - 1, i + 1, true};  // the first one's previous is never read
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look_up = [&](std::size_t at) {
    if (symbols[at].next >= n) return;
    const std::uint64_t pair = pair_of(ids[at], ids[symbols[at].next]);
    const Slot& slot = slot_of(pair);
    if (slot.rank != kNoRank) queue.push({slot.rank, at, pair, slot.merged});
  };
  for (std::size_t i = 0; i < n; ++i) look_up(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t next = symbols[best.at].next;
    if (!symbols[best.at].alive || next >= n || pair_of(ids[best.at], ids[next]) != best.pair) continue;
    ids[best.at] = best.merged;
    symbols[next].alive = false;
    symbols[best.at].next = symbols[next].next;
    if (symbols[next].next < n) symbols[symbols[next].next].previous = best.at;
    look_up(best.at);
    if (best.at > 0) look_up(symbols[best.at].previous);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; i = symbols[i].next) ids[kept++] = ids[i];
  ids.resize(kept);
}

}  // namespace attn
