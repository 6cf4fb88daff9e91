// The two split expressions as scanners: each branch below is one alternative of the expression, in its
// order.
#include "lib/text/pretokenize.h"

#include "lib/text/utf8.h"

namespace attn {

namespace {

struct Scanner {
  std::string_view text;
  const UnicodeTable& table;

  struct Char {
    std::uint8_t split_class;
    std::size_t end;
  };
  Char at(std::size_t i) const {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) return {table.split_class(byte), i + 1};
    const Utf8Char c = decode_utf8(text, i);
    return {table.split_class(c.code_point), i + c.bytes};
  }
  bool is(std::size_t i, char c) const { return i < text.size() && text[i] == c; }
  bool is_line_end(std::size_t i) const { return is(i, '\r') || is(i, '\n'); }

  // The end of the run of `split_class` that goes on at i, of at most `limit` characters.
  std::size_t run(std::size_t i, std::uint8_t split_class, std::size_t limit = std::string_view::npos) const {
    for (; limit > 0 && i < text.size(); --limit) {
      const Char c = at(i);
      if (c.split_class != split_class) break;
      i = c.end;
    }
    return i;
  }

  // '(?:s|t|re|ve|m|ll|d): its end, or `begin` if it is not there. Ignoring case, s is also U+017F (long s),
  // whose simple case folding it is.
  std::size_t contraction(std::size_t begin, bool ignore_case) const {
    const auto lower = [&](std::size_t i) -> char {
      if (i >= text.size()) return '\0';
      const char c = text[i];
      return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    switch (lower(begin + 1)) {
      case 's':
      case 't':
      case 'm':
      case 'd': return begin + 2;
      case 'r':
      case 'v': return lower(begin + 2) == 'e' ? begin + 3 : begin;
      case 'l': return lower(begin + 2) == 'l' ? begin + 3 : begin;
      default: return ignore_case && text.substr(begin + 1, 2) == "\xc5\xbf" ? begin + 3 : begin;
    }
  }

  // \s+(?!\S)|\s+ over the run begin..end of spaces: the last one stays for the next piece, unless it is the
  // only one or the text ends.
  std::size_t spaces(std::size_t begin, std::size_t end) const {
    if (end == text.size()) return end;
    const std::size_t last = previous_utf8(text, end);
    return last > begin ? last : end;
  }
};

std::size_t gpt2_end(const Scanner& s, std::size_t begin) {
  if (s.text[begin] == '\'') {
    const std::size_t end = s.contraction(begin, false);
    if (end > begin) return end;
  }
  const std::size_t first = s.text[begin] == ' ' && begin + 1 < s.text.size() ? begin + 1 : begin;
  const Scanner::Char c = s.at(first);
  if (c.split_class != kSpace) return s.run(c.end, c.split_class);
  return s.spaces(begin, s.run(begin, kSpace));
}

std::size_t llama3_end(const Scanner& s, std::size_t begin) {
  if (s.text[begin] == '\'') {
    const std::size_t end = s.contraction(begin, true);
    if (end > begin) return end;
  }
  const Scanner::Char c = s.at(begin);
  if (c.split_class == kLetter) return s.run(c.end, kLetter);
  if (c.split_class == kNumber) return s.run(c.end, kNumber, 2);
  if (!s.is_line_end(begin) && c.end < s.text.size() && s.at(c.end).split_class == kLetter) {
    return s.run(c.end, kLetter);
  }
  const std::size_t first = s.is(begin, ' ') && c.end < s.text.size() ? c.end : begin;
  if (s.at(first).split_class == kOther) {
    std::size_t end = s.run(first, kOther);
    while (s.is_line_end(end)) ++end;
    return end;
  }
  const std::size_t end = s.run(begin, kSpace);
  for (std::size_t i = end; i > begin; --i) {
    if (s.is_line_end(i - 1)) return i;
  }
  return s.spaces(begin, end);
}

}  // namespace

std::size_t piece_end(SplitPattern pattern, std::string_view text, std::size_t begin,
                      const UnicodeTable& table) {
  const Scanner scanner{text, table};
  return pattern == SplitPattern::gpt2 ? gpt2_end(scanner, begin) : llama3_end(scanner, begin);
}

}  // namespace attn
