// Byte symbols: the printable character that stands for each byte in the files of a byte-level BPE (GPT-2,
// 2019).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attn {

// Bytes 0x21-0x7e, 0xa1-0xac, 0xae-0xff stand for themselves as code points; the other 68, in order, are
// U+0100..U+0143 (a space is U+0120, "Ġ").
std::array<char32_t, 256> byte_symbols();

class ByteSymbols {
 public:
  ByteSymbols();
  const std::string& of_byte(std::uint8_t byte) const { return text_[byte]; }
  // The bytes that a token of the file stands for, or nothing if it holds a character that is no byte symbol.
  // `token` is valid UTF-8.
  std::optional<std::string> to_bytes(std::string_view token) const;

 private:
  std::array<std::string, 256> text_;
  std::array<std::int16_t, 0x144> byte_of_;  // -1: not a symbol
};

}  // namespace attn
