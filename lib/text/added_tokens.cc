// A search for a few literal strings at once, with the rules of the Hugging Face tokenizers library for added
// tokens.
#include "lib/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "lib/text/utf8.h"

namespace attn {

namespace {

bool is_space_at(const UnicodeTable& table, std::string_view text, std::size_t at) {
  return table.split_class(decode_utf8(text, at).code_point) == kSpace;
}

bool word_before(std::string_view text, std::size_t end) {
  return end > 0 && UnicodeTable::is_word(decode_utf8(text, previous_utf8(text, end)).code_point);
}

bool word_at(std::string_view text, std::size_t at) {
  return at < text.size() && UnicodeTable::is_word(decode_utf8(text, at).code_point);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), first_of_byte_(257), second_bytes_(256) {
  const auto first = [](const AddedToken& t) { return static_cast<unsigned char>(t.content[0]); };
  std::sort(tokens_.begin(), tokens_.end(), [&](const AddedToken& a, const AddedToken& b) {
    if (first(a) != first(b)) return first(a) < first(b);
    if (a.content.size() != b.content.size()) return a.content.size() > b.content.size();
    return a.content < b.content;
  });
  for (const AddedToken& token : tokens_) {
    ++first_of_byte_[first(token) + std::size_t{1}];
    std::bitset<256>& second = second_bytes_[first(token)];
    token.content.size() == 1 ? second.set() : second.set(static_cast<unsigned char>(token.content[1]));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) first_of_byte_[byte + 1] += first_of_byte_[byte];
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  for (std::size_t i = first_of_byte_[byte]; i < first_of_byte_[byte + std::size_t{1}]; ++i) {
    if (text.compare(at, tokens_[i].content.size(), tokens_[i].content) == 0) return &tokens_[i];
  }
  return nullptr;
}

void AddedTokens::find(std::string_view text, bool parse_special, const UnicodeTable& table,
                       std::vector<AddedTokenMatch>& matches) const {
  matches.clear();
  if (tokens_.empty()) return;
  std::size_t free_from = 0;  // text before it belongs to a match already
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first_of_byte_[first] == first_of_byte_[first + std::size_t{1}]) {
      ++i;
      continue;
    }
    const std::bitset<256>& second = second_bytes_[first];
    const bool possible =
        i + 1 < text.size() ? second[static_cast<unsigned char>(text[i + 1])] : second.any();
    const AddedToken* token = possible ? longest_at(text, i) : nullptr;
    if (!token) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + token->content.size();
    i = end;  // a match that is turned down below still hides others inside it
    if (token->special && !parse_special) continue;
    if (token->single_word && (word_before(text, begin) || word_at(text, end))) continue;
    if (token->lstrip) {
      while (begin > free_from && is_space_at(table, text, previous_utf8(text, begin)))
        begin = previous_utf8(text, begin);
      begin = std::max(begin, free_from);
    }
    if (token->rstrip) {
      while (end < text.size() && is_space_at(table, text, end)) end += decode_utf8(text, end).bytes;
    }
    // As in that library, behind an rstrip a token of spaces may begin in what was taken and give some of it
    // back; one that is left empty is none.
    if (begin < end) matches.push_back({begin, end, token->id});
    free_from = end;
  }
}

}  // namespace attn
