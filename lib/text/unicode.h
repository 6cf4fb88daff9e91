// UnicodeTable: what a tokenizer asks about a character (letter, number, space), and NFC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

enum CharClass : std::uint8_t {
  kOther = 0,
  kLetter = 1,  // general category L*: \p{L}
  kNumber = 2,  // general category N*: \p{N}
  kSpace = 4,   // property White_Space: \s
  kSplitMask = 7,
  // Alone it is its own NFC and it never joins with what stands before it: text may be cut in front of it.
  kNfcInert = 8,
};

// The property White_Space.
bool is_white_space(char32_t c);
// What Python's str.isspace(), str.split() and the \s of its `re` call white space: that and U+001C..U+001F.
bool is_python_space(char32_t c);

// Of the Unicode version that utf8proc has (15 in Debian 12): characters younger than that, or than the
// program that made a tokenizer, may be classed or ordered differently by the two.
class UnicodeTable {
 public:
  UnicodeTable();

  // kOther, kLetter, kNumber or kSpace.
  std::uint8_t split_class(char32_t c) const { return flags(c) & kSplitMask; }
  // \w of a regular expression over Unicode (UTS 18 annex C).
  static bool is_word(char32_t c);

  // True if `text` (valid UTF-8) equals its NFC for sure; false if nfc() must look.
  bool surely_nfc(std::string_view text) const;
  std::string nfc(std::string_view text) const;

 private:
  static std::uint8_t compute_flags(char32_t c);
  std::uint8_t flags(char32_t c) const { return c < basic_.size() ? basic_[c] : compute_flags(c); }

  std::vector<std::uint8_t> basic_;  // flags of U+0000..U+FFFF: a table, since every character of a text asks
};

}  // namespace attn
