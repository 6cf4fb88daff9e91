// Unicode properties and normalisation from utf8proc, tabulated for the basic plane.
#include "lib/text/unicode.h"

#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "lib/core/error.h"
#include "lib/text/utf8.h"

namespace attn {

namespace {

std::string whole_nfc(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &composed, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0) fail(ErrorKind::internal, "NFC of valid text failed: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size)};
}

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_mark(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

// Every character that can be the second of a canonical composition is a mark, a Hangul jamo or a Kirat Rai
// vowel.
bool is_nfc_inert(char32_t c, utf8proc_category_t category) {
  if (c < 0x300) return true;
  if (is_mark(category) || (c >= 0x1100 && c <= 0x11ff) || (c >= 0x16d40 && c <= 0x16d7f)) return false;
  if (c >= 0xac00 && c <= 0xd7a3) return true;   // Hangul syllables decompose and compose back
  if (c >= 0xd800 && c <= 0xdfff) return false;  // surrogates: not text
  utf8proc_int32_t parts[8];
  int last_boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts, 8,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE), &last_boundary);
  if (count == 1 && parts[0] == static_cast<utf8proc_int32_t>(c)) return true;
  std::string alone;
  append_utf8(alone, c);
  return whole_nfc(alone) == alone;
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

UnicodeTable::UnicodeTable() : basic_(0x10000) {
  for (std::size_t c = 0; c < basic_.size(); ++c) basic_[c] = compute_flags(static_cast<char32_t>(c));
}

std::uint8_t UnicodeTable::compute_flags(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  std::uint8_t flags = kOther;
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) flags = kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) flags = kNumber;
  if (is_white_space(c)) flags = kSpace;
  if (is_nfc_inert(c, category)) flags = static_cast<std::uint8_t>(flags | kNfcInert);
  return flags;
}

bool UnicodeTable::is_word(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || is_mark(category) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d ||  // Join_Control
         (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||  // enclosed letters are
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);  // Other_Alphabetic
}

bool UnicodeTable::surely_nfc(std::string_view text) const {
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Char c = decode_utf8(text, i);
    if (!(flags(c.code_point) & kNfcInert)) return false;
    i += c.bytes;
  }
  return true;
}

// Only stretches of characters that are not inert are normalised, with the one character before them that
// they may join.
std::string UnicodeTable::nfc(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  std::size_t copied = 0, previous = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (flags(c.code_point) & kNfcInert) {
      previous = i;
      i += c.bytes;
      continue;
    }
    std::size_t end = i + c.bytes;
    while (end < text.size()) {
      const Utf8Char next = decode_utf8(text, end);
      if (flags(next.code_point) & kNfcInert) break;
      end += next.bytes;
    }
    result.append(text.substr(copied, previous - copied));
    result += whole_nfc(text.substr(previous, end - previous));
    copied = previous = i = end;
  }
  result.append(text.substr(copied));
  return result;
}

}  // namespace attn
