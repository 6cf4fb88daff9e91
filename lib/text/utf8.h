// UTF-8 inside the text room: one character of text that has passed validate_utf8, and the writing of one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attn {

struct Utf8Char {
  char32_t code_point;
  std::size_t bytes;
};

// The character that begins at text[at]; the text must be well-formed and `at` a character's first byte.
inline Utf8Char decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

// The first byte of the character that ends just before text[end]; end > 0.
inline std::size_t previous_utf8(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

void append_utf8(std::string& text, char32_t code_point);

}  // namespace attn
