// AddedTokens: the tokens that are found in the text itself, before it is cut into pieces.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/token.h"
#include "lib/text/unicode.h"

namespace attn {

// As in the "added_tokens" of a tokenizer.json.
struct AddedToken {
  std::string content;  // as it stands in the text, not in byte symbols
  TokenId id = 0;
  bool special = false;      // EncodeOptions::parse_special decides whether text can mean it
  bool normalized = false;   // looked for after normalisation (its content normalised too), else before
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the spaces before it along
  bool rstrip = false;       // takes the spaces behind it along
};

struct AddedTokenMatch {
  std::size_t begin, end;  // bytes of the text, stripped spaces included
  TokenId id;
};

class AddedTokens {
 public:
  // Contents must be non-empty and different (checked by BpeTokenizer).
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // All matches, leftmost first and longest at equal beginnings. Their contents do not overlap, but the
  // spaces that one with rstrip takes along may be the next one's content. `matches` is cleared first.
  void find(std::string_view text, bool parse_special, const UnicodeTable& table,
            std::vector<AddedTokenMatch>& matches) const;

  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;          // by first byte, then longest first
  std::vector<std::size_t> first_of_byte_;  // tokens with first byte b: first_of_byte_[b] .. [b + 1]
  std::vector<std::bitset<256>>
      second_bytes_;  // by first byte: a text byte that cannot be second ends the search
};

}  // namespace attn
