// BpeTokenizer: byte-level BPE, of GPT-2, GPT-NeoX and LLaMA-3.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/text/added_tokens.h"
#include "lib/text/merge_table.h"
#include "lib/text/pretokenize.h"
#include "lib/text/tokenizer.h"
#include "lib/text/unicode.h"
#include "lib/text/word_cache.h"

namespace attn {

// What tokenizer files say, before it is checked.
struct BpeDefinition {
  std::string source;                                       // the file, for messages
  std::vector<std::pair<std::string, std::int64_t>> vocab;  // token in byte symbols, id
  std::vector<std::pair<std::string, std::string>> merges;  // in byte symbols, by rank
  std::vector<AddedToken> added_tokens;
  SplitPattern split = SplitPattern::gpt2;
  bool nfc = false;
  bool ignore_merges = false;           // a piece that is a token of the vocabulary is that token
  bool has_unknown_token = false;       // allowed only where no byte can be unknown
  std::optional<std::string> bos, eos;  // contents, as the file's template has them
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Error{bad_input}, naming the source: ids out of range or used twice, merges of unknown tokens, merges or
  // tokens that come twice.
  explicit BpeTokenizer(BpeDefinition definition);

  using Tokenizer::encode;
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  TokenId vocab_size() const override { return static_cast<TokenId>(token_end_.size()); }
  std::optional<TokenId> bos() const override { return bos_; }
  std::optional<TokenId> eos() const override { return eos_; }

 private:
  void encode_unnormalized(std::string_view text, bool parse_special, WordCache& cache,
                           std::vector<TokenId>& ids) const;
  void encode_plain(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& piece_ids) const;

  std::string source_;
  SplitPattern split_;
  bool nfc_;
  UnicodeTable unicode_;
  AddedTokens raw_tokens_;             // looked for in the text as it is
  AddedTokens normalized_tokens_;      // and after normalisation
  std::array<TokenId, 256> byte_ids_;  // -1: no token of this byte
  std::optional<MergeTable> merges_;
  std::string token_bytes_;                                // what each id decodes to, one after another
  std::vector<std::size_t> token_end_;                     // by id
  std::vector<bool> defined_;                              // by id: false in a hole of the numbering
  std::unordered_map<std::string, TokenId> whole_tokens_;  // by bytes; only for ignore_merges
  std::optional<TokenId> bos_, eos_;

  // Memory of earlier pieces; the results do not depend on it. A second thread that comes while it is taken
  // uses one of its own.
  mutable std::mutex cache_mutex_;
  mutable std::unique_ptr<WordCache> cache_;
};

}  // namespace attn
