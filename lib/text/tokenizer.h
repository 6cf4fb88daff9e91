// Tokenizer: text to token ids and back, as the model's own tokenizer files say.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/token.h"

namespace attn {

struct EncodeOptions {
  // Special tokens written out in the text (<|endoftext|>) become their one id. When false such text is split
  // like any other. Added tokens that are not special (GPT-NeoX's runs of spaces) are always recognised.
  bool parse_special = true;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids in the order of the text; no BOS or EOS is added. Text must be UTF-8: Error{bad_input} with the byte
  // offset.
  virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const = 0;
  std::vector<TokenId> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }

  // The bytes the ids stand for, special tokens written out. A cut inside a character gives incomplete UTF-8:
  // decode whole sequences, or hold back an incomplete tail. Error{bad_input} for an id outside the
  // vocabulary.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  // One more than the largest id. A model's embedding may be larger (padding), never smaller.
  virtual TokenId vocab_size() const = 0;

  // The tokens that begin and end a text, where the files name them (see load_tokenizer).
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
};

// Reads tokenizer.json of the folder, or else vocab.json (encoder.json) with merges.txt (vocab.bpe); no other
// file is read. `model_dir` may also name a tokenizer.json itself. bos() is the token that the file's own
// template puts first, else <|endoftext|> or <|begin_of_text|> where the vocabulary has it; eos() is
// <|endoftext|> or <|end_of_text|>. Error{bad_input}: nothing found, or a file contradicts itself.
// Error{unsupported}: it asks for what we do not do, by name.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_dir);

// The offset of the first byte that is not part of well-formed UTF-8 (overlong forms and surrogates are not),
// or nothing.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);
// Throws Error{bad_input} naming `what` (a file, "the prompt") and that offset.
void validate_utf8(std::string_view text, std::string_view what);

}  // namespace attn
