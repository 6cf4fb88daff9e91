// Byte-level BPE: added tokens are found first, the rest is normalised, cut into pieces, and merged piece by
// piece.
#include "lib/text/bpe_tokenizer.h"

#include <algorithm>
#include <set>

#include "lib/core/error.h"
#include "lib/text/byte_symbols.h"

namespace attn {

namespace {

constexpr std::int64_t kMaxVocabulary = std::int64_t{1}
                                        << 22;  // ids beyond are a damaged file, not a vocabulary

using TokenIds = std::unordered_map<std::string_view, TokenId>;

TokenId checked_id(std::int64_t id, std::string_view token, const std::string& source) {
  if (id < 0 || id >= kMaxVocabulary) {
    fail(ErrorKind::bad_input, "{}: token '{}' has id {}, which is not in 0..{}", source, token, id,
         kMaxVocabulary - 1);
  }
  return static_cast<TokenId>(id);
}

TokenIds index_vocabulary(const BpeDefinition& d) {
  TokenIds ids;
  ids.reserve(d.vocab.size());
  for (const auto& [token, id] : d.vocab) {
    if (!ids.emplace(token, checked_id(id, token, d.source)).second) {
      fail(ErrorKind::bad_input, "{}: token '{}' is in the vocabulary twice", d.source, token);
    }
  }
  return ids;
}

std::vector<Merge> index_merges(const BpeDefinition& d, const TokenIds& ids) {
  std::vector<Merge> merges;
  merges.reserve(d.merges.size());
  std::string both;
  const auto id_of = [&](const std::string& token, std::size_t rank) {
    const auto found = ids.find(token);
    if (found == ids.end()) {
      fail(ErrorKind::bad_input,
           "{}: merge {} ('{}' and '{}') needs the token '{}', which is not in the vocabulary", d.source,
           rank, d.merges[rank].first, d.merges[rank].second, token);
    }
    return found->second;
  };
  for (std::size_t rank = 0; rank < d.merges.size(); ++rank) {
    const auto& [left, right] = d.merges[rank];
    both.assign(left).append(right);
    merges.push_back({id_of(left, rank), id_of(right, rank), id_of(both, rank)});
  }
  return merges;
}

// The first of `names` that is a token.
std::optional<TokenId> find_token(const std::optional<std::string>& named,
                                  std::initializer_list<const char*> names, const TokenIds& ids,
                                  const std::string& source) {
  if (named) {
    const auto found = ids.find(*named);
    if (found == ids.end()) {
      fail(ErrorKind::bad_input, "{}: the template names '{}', which is not a token", source, *named);
    }
    return found->second;
  }
  for (const char* name : names) {
    if (const auto found = ids.find(name); found != ids.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeDefinition d) : source_(d.source), split_(d.split), nfc_(d.nfc) {
  const ByteSymbols symbols;
  TokenIds ids = index_vocabulary(d);

  // Bytes by id: of the vocabulary through the byte symbols, of added tokens as they are.
  std::vector<std::optional<std::string>> bytes;
  const auto define = [&](TokenId id, std::string content, std::string_view token) {
    if (static_cast<std::size_t>(id) >= bytes.size()) bytes.resize(static_cast<std::size_t>(id) + 1);
    if (bytes[static_cast<std::size_t>(id)]) {
      fail(ErrorKind::bad_input, "{}: id {} is used twice, by '{}' among others", source_, id, token);
    }
    bytes[static_cast<std::size_t>(id)] = std::move(content);
  };
  for (const auto& [token, id] : d.vocab) {
    define(static_cast<TokenId>(id), symbols.to_bytes(token).value_or(token), token);
  }
  byte_ids_.fill(-1);
  bool every_byte = true;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(symbols.of_byte(static_cast<std::uint8_t>(byte)));
    found == ids.end() ? every_byte = false : (byte_ids_[byte] = found->second, true);
  }
  if (d.has_unknown_token && !every_byte) {
    fail(ErrorKind::unsupported,
         "{}: 'unk_token' in a vocabulary that lacks single bytes is not supported: text would be lost",
         source_);
  }
  merges_.emplace(index_merges(d, ids));
  if (merges_->duplicate() >= 0) {
    const auto& [left, right] = d.merges[static_cast<std::size_t>(merges_->duplicate())];
    fail(ErrorKind::bad_input, "{}: merge {} ('{}' and '{}') is in the list twice", source_,
         merges_->duplicate(), left, right);
  }
  if (d.ignore_merges) {
    for (const auto& [token, id] : d.vocab) {
      if (const auto content = symbols.to_bytes(token))
        whole_tokens_.emplace(*content, static_cast<TokenId>(id));
    }
  }

  std::vector<AddedToken> raw, normalized;
  std::set<std::string> contents;
  for (AddedToken token : d.added_tokens) {
    checked_id(token.id, token.content, source_);
    if (token.content.empty())
      fail(ErrorKind::bad_input, "{}: the added token {} is empty", source_, token.id);
    const auto known = ids.find(token.content);
    if (known == ids.end()) {
      define(token.id, token.content, token.content);
    } else if (known->second != token.id) {
      fail(ErrorKind::bad_input, "{}: the added token '{}' has id {}, but {} in the vocabulary", source_,
           token.content, token.id, known->second);
    } else {
      bytes[static_cast<std::size_t>(token.id)] = token.content;
    }
    if (token.normalized && nfc_) token.content = unicode_.nfc(token.content);
    if (!contents.insert(token.content).second) {
      fail(ErrorKind::bad_input, "{}: the added token '{}' is there twice", source_, token.content);
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  for (const AddedToken& token : d.added_tokens) ids.emplace(token.content, token.id);
  raw_tokens_ = AddedTokens(std::move(raw));
  normalized_tokens_ = AddedTokens(std::move(normalized));
  bos_ = find_token(d.bos, {"<|endoftext|>", "<|begin_of_text|>"}, ids, source_);
  eos_ = find_token(d.eos, {"<|endoftext|>", "<|end_of_text|>"}, ids, source_);

  if (bytes.empty()) fail(ErrorKind::bad_input, "{}: the vocabulary is empty", source_);
  for (const auto& content : bytes) {
    if (content) token_bytes_ += *content;
    token_end_.push_back(token_bytes_.size());
    defined_.push_back(content.has_value());
  }
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  validate_utf8(text, "the text to tokenize");
  const std::unique_lock<std::mutex> lock(cache_mutex_, std::try_to_lock);
  std::unique_ptr<WordCache> own;
  std::unique_ptr<WordCache>& cache = lock.owns_lock() ? cache_ : own;
  if (!cache) cache = std::make_unique<WordCache>();

  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  std::vector<AddedTokenMatch> matches;
  raw_tokens_.find(text, options.parse_special, unicode_, matches);
  std::size_t begin = 0;
  for (const AddedTokenMatch& match : matches) {
    if (begin < match.begin)
      encode_unnormalized(text.substr(begin, match.begin - begin), options.parse_special, *cache, ids);
    ids.push_back(match.id);
    begin = match.end;
  }
  encode_unnormalized(text.substr(begin), options.parse_special, *cache, ids);
  return ids;
}

void BpeTokenizer::encode_unnormalized(std::string_view text, bool parse_special, WordCache& cache,
                                       std::vector<TokenId>& ids) const {
  std::string normalized;
  if (nfc_ && !unicode_.surely_nfc(text)) {
    normalized = unicode_.nfc(text);
    text = normalized;
  }
  std::vector<AddedTokenMatch> matches;
  normalized_tokens_.find(text, parse_special, unicode_, matches);
  std::size_t begin = 0;
  for (const AddedTokenMatch& match : matches) {
    if (begin < match.begin) encode_plain(text.substr(begin, match.begin - begin), cache, ids);
    ids.push_back(match.id);
    begin = match.end;
  }
  encode_plain(text.substr(begin), cache, ids);
}

void BpeTokenizer::encode_plain(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const {
  std::vector<TokenId> piece_ids;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(split_, text, begin, unicode_);
    const std::string_view piece = text.substr(begin, end - begin);
    begin = end;
    if (piece.size() > WordCache::kMaxBytes) {
      encode_piece(piece, piece_ids);
      ids.insert(ids.end(), piece_ids.begin(), piece_ids.end());
      continue;
    }
    const WordCache::Key key = WordCache::key_of(piece, text);
    std::span<const TokenId> found = cache.find(key, piece.size());
    if (found.empty()) {
      encode_piece(piece, piece_ids);
      cache.insert(key, piece.size(), piece_ids);
      found = piece_ids;
    }
    if (found.size() == 1) {
      ids.push_back(found[0]);
    } else {
      ids.insert(ids.end(), found.begin(), found.end());
    }
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& piece_ids) const {
  piece_ids.clear();
  if (!whole_tokens_.empty()) {
    if (const auto found = whole_tokens_.find(std::string(piece)); found != whole_tokens_.end()) {
      piece_ids.push_back(found->second);
      return;
    }
  }
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) {
      fail(ErrorKind::bad_input, "{}: the vocabulary has no token for byte 0x{:02x}, which the text holds",
           source_, static_cast<unsigned char>(c));
    }
    piece_ids.push_back(id);
  }
  merges_->apply(piece_ids);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size() || !defined_[static_cast<std::size_t>(id)]) {
      fail(ErrorKind::bad_input, "{}: id {} is not a token of this vocabulary of {}", source_, id,
           vocab_size());
    }
    const auto i = static_cast<std::size_t>(id);
    const std::size_t begin = i == 0 ? 0 : token_end_[i - 1];
    text.append(token_bytes_, begin, token_end_[i] - begin);
  }
  return text;
}

}  // namespace attn
