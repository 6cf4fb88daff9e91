// The table of byte symbols in both directions.
#include "lib/text/byte_symbols.h"

#include "lib/text/utf8.h"

namespace attn {

std::array<char32_t, 256> byte_symbols() {
  std::array<char32_t, 256> symbols{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    symbols[byte] = printable ? byte : next++;
  }
  return symbols;
}

ByteSymbols::ByteSymbols() {
  byte_of_.fill(-1);
  const auto symbols = byte_symbols();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    append_utf8(text_[byte], symbols[byte]);
    byte_of_[symbols[byte]] = static_cast<std::int16_t>(byte);
  }
}

std::optional<std::string> ByteSymbols::to_bytes(std::string_view token) const {
  std::string bytes;
  bytes.reserve(token.size());
  for (std::size_t i = 0; i < token.size();) {
    const Utf8Char c = decode_utf8(token, i);
    if (c.code_point >= byte_of_.size() || byte_of_[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<unsigned char>(byte_of_[c.code_point]));
    i += c.bytes;
  }
  return bytes;
}

}  // namespace attn
