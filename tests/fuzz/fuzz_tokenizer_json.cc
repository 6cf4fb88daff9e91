// libFuzzer: any bytes as a tokenizer.json give a tokenizer that decodes what it encodes, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/core/error.h"
#include "lib/text/bpe_tokenizer.h"
#include "lib/text/tokenizer_json.h"

namespace {

void check(bool truth) {
  if (!truth) std::abort();
}

void check_allowed(const attn::Error& e) {
  check(e.kind() == attn::ErrorKind::bad_input || e.kind() == attn::ErrorKind::unsupported);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const attn::BpeTokenizer tokenizer(attn::parse_tokenizer_json(bytes, "fuzz"));
    for (const std::string& text :
         {std::string("a b  ab\n\n 'll 123 caf\u00e9 e\u0301 <|endoftext|>"), std::string(bytes)}) {
      try {
        const auto ids = tokenizer.encode(text);
        for (const attn::TokenId id : ids) check(id >= 0 && id < tokenizer.vocab_size());
        check(!tokenizer.decode(ids).empty() || ids.empty() || !text.empty());
      } catch (const attn::Error& e) {
        check_allowed(e);  // invalid UTF-8, or a byte that the vocabulary lacks
      }
    }
  } catch (const attn::Error& e) {
    check_allowed(e);
  }
  // The same bytes as the older pair of files: vocabulary up to the first zero byte, merges behind it.
  const std::size_t cut = bytes.find('\0');
  if (cut != std::string_view::npos) {
    try {
      const attn::BpeTokenizer tokenizer(
          attn::parse_vocab_and_merges(bytes.substr(0, cut), "vocab", bytes.substr(cut + 1), "merges"));
      tokenizer.decode(tokenizer.encode("ab<|endoftext|>"));
    } catch (const attn::Error& e) {
      check_allowed(e);
    }
  }
  return 0;
}
