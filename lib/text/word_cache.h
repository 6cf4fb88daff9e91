// WordCache: the ids of pieces met before, in a fixed amount of memory; most pieces of a text are repeats.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "lib/text/token.h"

namespace attn {

class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 24;  // longer pieces are not kept
  static constexpr std::size_t kMaxIds = 9;     // nor are pieces of more ids

  // A piece as three words, the rest zero: compared and hashed without a loop.
  struct Key {
    std::array<std::uint64_t, 3> words;
    std::uint64_t hash;
  };
  // `piece` lies in `text`: reading past it within the text is fine. 0 < piece.size() <= kMaxBytes.
  static Key key_of(std::string_view piece, std::string_view text) {
    Key key{{}, 0};
    const char* end_of_text = text.data() + text.size();
    if (piece.data() + kMaxBytes <= end_of_text) {
      std::memcpy(key.words.data(), piece.data(), kMaxBytes);
      const std::size_t n = piece.size();
      key.words[0] &= low_bytes(n);
      key.words[1] &= n > 8 ? low_bytes(n - 8) : 0;
      key.words[2] &= n > 16 ? low_bytes(n - 16) : 0;
    } else {
      std::memcpy(key.words.data(), piece.data(), piece.size());
    }
    std::uint64_t h = key.words[0] * 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 32) ^ key.words[1]) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 29) ^ key.words[2] ^ piece.size()) * 0x94d049bb133111ebULL;
    key.hash = h >> 40;
    return key;
  }

  WordCache() : entries_(kEntries) {}

  // The ids of the piece of `bytes` bytes, or an empty span.
  std::span<const TokenId> find(const Key& key, std::size_t bytes) const {
    const Entry& entry = entries_[key.hash % kEntries];
    // Word by word: comparing the arrays calls memcmp, which took a third of all tokenizing time.
    const bool same = entry.words[0] == key.words[0] && entry.words[1] == key.words[1] &&
                      entry.words[2] == key.words[2] && entry.bytes == bytes;
    if (!same) return {};
    return {entry.ids.data(), entry.count};
  }
  // Takes the place of whatever piece had the same hash.
  void insert(const Key& key, std::size_t bytes, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Entry& entry = entries_[key.hash % kEntries];
    entry.words = key.words;
    entry.bytes = static_cast<std::uint16_t>(bytes);
    entry.count = static_cast<std::uint16_t>(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) entry.ids[i] = ids[i];
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 16;

  static std::uint64_t low_bytes(std::size_t n) {  // a mask of the first n bytes in memory order
    return n >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * n)) - 1;
  }
  struct alignas(64) Entry {  // one cache line; bytes == 0: empty
    std::array<std::uint64_t, 3> words{};
    std::uint16_t bytes = 0, count = 0;
    std::array<TokenId, kMaxIds> ids{};
  };

  std::vector<Entry> entries_;
};

}  // namespace attn
