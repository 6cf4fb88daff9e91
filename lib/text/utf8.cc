// Well-formed UTF-8, as table 3-7 of the Unicode standard has it.
#include "lib/text/utf8.h"

#include <cstdint>
#include <cstring>

#include "lib/core/error.h"
#include "lib/text/tokenizer.h"

namespace attn {

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t n = text.size();
  std::size_t i = 0;
  while (i < n) {
    if (p[i] < 0x80) {
      std::uint64_t eight = 0;
      while (i + 8 <= n && (std::memcpy(&eight, p + i, 8), (eight & 0x8080808080808080ULL) == 0)) i += 8;
      while (i < n && p[i] < 0x80) ++i;
      continue;
    }
    const unsigned char lead = p[i];
    std::size_t length = 0;
    unsigned char low = 0x80, high = 0xbf;  // the allowed second byte
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3;
      if (lead == 0xe0) low = 0xa0;   // else overlong
      if (lead == 0xed) high = 0x9f;  // else a surrogate
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4;
      if (lead == 0xf0) low = 0x90;   // else overlong
      if (lead == 0xf4) high = 0x8f;  // else above U+10FFFF
    } else {
      return i;
    }
    if (i + length > n || p[i + 1] < low || p[i + 1] > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if ((p[i + k] & 0xc0) != 0x80) return i;
    }
    i += length;
  }
  return std::nullopt;
}

void validate_utf8(std::string_view text, std::string_view what) {
  if (const auto at = find_invalid_utf8(text)) {
    fail(ErrorKind::bad_input, "{}: is not UTF-8 text: byte 0x{:02x} at offset {}; convert it to UTF-8 first",
         what, static_cast<unsigned char>(text[*at]), *at);
  }
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

}  // namespace attn
