// A tokenizer for tests: one id a byte, and two bytes to decode to, so that bytes and tokens cannot be mixed
// up.
#pragma once

#include "lib/text/tokenizer.h"

namespace attn {

class LetterTokenizer : public Tokenizer {
 public:
  explicit LetterTokenizer(TokenId vocab) : vocab_(vocab) {}
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c) % vocab_);
    return ids;
  }
  std::string decode(std::span<const TokenId> ids) const override { return std::string(2 * ids.size(), 'x'); }
  TokenId vocab_size() const override { return vocab_; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  using Tokenizer::encode;

 private:
  TokenId vocab_;
};

}  // namespace attn
