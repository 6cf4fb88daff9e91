// What a window is fed, and the text that it scores.
#include "lib/eval/passage.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

void write_fed_ids(const Passage& passage, const Window& window, TokenId* out) {
  if (window.bos) {
    if (!passage.bos)
      fail(ErrorKind::internal, "{}: a window begins with BOS and there is none", passage.name);
    *out++ = *passage.bos;
  }
  std::copy(passage.ids.begin() + window.begin,
            passage.ids.begin() + window.end - (window.target_last ? 1 : 0), out);
}

std::vector<TokenId> fed_ids(const Passage& passage, const Window& window) {
  std::vector<TokenId> ids(static_cast<std::size_t>(window.tokens()));
  write_fed_ids(passage, window, ids.data());
  return ids;
}

std::int64_t first_scored_row(const Window& window) {
  return window.first_scored - 1 - window.begin + (window.bos ? 1 : 0);
}

std::vector<TextCounts> count_scored_text(const Passage& passage, const Tokenizer& tokenizer) {
  std::vector<TextCounts> counts;
  counts.reserve(passage.windows.size());
  const auto ids = [&](std::int64_t begin, std::int64_t end) {
    return std::span(passage.ids)
        .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  };
  std::int64_t next = 0;  // the token after the last one that was counted
  bool after_space = true;
  for (const Window& window : passage.windows) {
    if (window.first_scored != next) {
      const std::string before = window.first_scored == 0
                                     ? " "
                                     : tokenizer.decode(ids(window.first_scored - 1, window.first_scored));
      after_space = !before.empty() && is_space(before.back());
    }
    next = window.end;
    const std::string text = tokenizer.decode(ids(window.first_scored, window.end));
    TextCounts& count = counts.emplace_back();
    count.bytes = static_cast<std::int64_t>(text.size());
    for (const char c : text) {
      if (after_space && !is_space(c)) ++count.words;
      after_space = is_space(c);
    }
  }
  return counts;
}

}  // namespace attn
