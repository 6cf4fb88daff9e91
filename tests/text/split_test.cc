// The split patterns against pieces worked out by hand from the regular expressions, and Unicode's part in
// them.
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/text/pretokenize.h"
#include "lib/text/tokenizer.h"
#include "lib/text/unicode.h"
#include "lib/text/utf8.h"
#include "tests/catch.h"

using namespace attn;

namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(SplitPattern pattern, const std::string& text) {
  static const UnicodeTable table;
  Pieces pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(pattern, text, begin, table);
    REQUIRE(end > begin);
    REQUIRE(end <= text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

struct SplitCase {
  std::string text;
  Pieces pieces;
};

}  // namespace

TEST_CASE("GPT-2 split: words take one space and the last of several spaces goes to the next word") {
  const std::vector<SplitCase> cases = {
      {"Hello world", {"Hello", " world"}},
      {"a  b", {"a", " ", " b"}},
      {"a   b", {"a", "  ", " b"}},
      {"a ", {"a", " "}},
      {"a  ", {"a", "  "}},
      {"a\nb", {"a", "\n", "b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a \nb", {"a", " ", "\n", "b"}},
      {"a\r\n b", {"a", "\r\n", " b"}},
      {"\t\tx", {"\t", "\t", "x"}},
      {"abc123 456", {"abc", "123", " 456"}},
      {"it's I'll we've'd", {"it", "'s", " I", "'ll", " we", "'ve", "'d"}},
      {"IT'S", {"IT", "'", "S"}},
      {" 's", {" '", "s"}},
      {"''s", {"''", "s"}},
      {"'rex 'llama", {"'re", "x", " '", "llama"}},
      {"a.b!? (c)", {"a", ".", "b", "!?", " (", "c", ")"}},
      {"caf\u00e9 \u4e2d\u6587", {"caf\u00e9", " \u4e2d\u6587"}},
      {"e\u0301x", {"e", "\u0301", "x"}},                    // a combining mark is no letter
      {"\u00bd\u0661\u2160x", {"\u00bd\u0661\u2160", "x"}},  // No, Nd, Nl are numbers
      {"a\u00a0b", {"a", "\u00a0", "b"}},  // a no-break space is a space, but not the one a word takes
      {"a\u00a0 b", {"a", "\u00a0", " b"}},
      {"a \u3000\u2028", {"a", " \u3000\u2028"}},
      {"x\u200by", {"x", "\u200b", "y"}},  // zero width space: not White_Space
      {"x\u001cy", {"x", "\u001c", "y"}},
      {"\U0001f600\U0001d400z",
       {"\U0001f600", "\U0001d400z"}},  // beyond the basic plane: symbol, then letters
  };
  for (const SplitCase& c : cases) {
    INFO("'" << c.text << "'");
    CHECK(pieces_of(SplitPattern::gpt2, c.text) == c.pieces);
  }
}

TEST_CASE("LLaMA-3 split: numbers by threes and line ends with what stands before them") {
  const std::vector<SplitCase> cases = {
      {"Hello world", {"Hello", " world"}},
      {"1234567", {"123", "456", "7"}},
      {" 1234", {" ", "123", "4"}},
      {"a  b", {"a", " ", " b"}},
      {"a\tb", {"a", "\tb"}},  // any one character that is no letter, number or line end joins a word
      {"a.b", {"a", ".b"}},
      {"(word)", {"(word", ")"}},
      {"a\nb", {"a", "\n", "b"}},
      {"a \n \n b", {"a", " \n \n", " b"}},
      {"a\n\n\n  b", {"a", "\n\n\n", " ", " b"}},
      {"a.\n\nb", {"a", ".\n\n", "b"}},
      {"a !!\r\n x", {"a", " !!\r\n", " x"}},
      {"\n ", {"\n", " "}},
      {"  \n", {"  \n"}},
      {"   ", {"   "}},
      {"IT'S we'VE 'Ll", {"IT", "'S", " we", "'VE", " '", "Ll"}},
      {"it'\u017f", {"it", "'\u017f"}},  // long s folds to s
      {"'x", {"'x"}},
      {"''s", {"''", "s"}},
      {"!!s", {"!!", "s"}},
      {"3.14 x=y", {"3", ".", "14", " x", "=y"}},
      {"\u0661\u0662\u0663\u0664", {"\u0661\u0662\u0663", "\u0664"}},
      {"e\u0301x", {"e", "\u0301x"}},
      {"\u00a0\u00a0a", {"\u00a0", "\u00a0a"}},
      {" \U0001f600\n1", {" \U0001f600\n", "1"}},
      {"x\r", {"x", "\r"}},
      {"5\n6", {"5", "\n", "6"}},
      {"5 \t6", {"5", " ", "\t", "6"}},
  };
  for (const SplitCase& c : cases) {
    INFO("'" << c.text << "'");
    CHECK(pieces_of(SplitPattern::llama3, c.text) == c.pieces);
  }
}

TEST_CASE("UTF-8: the first bad byte is found and named") {
  CHECK_FALSE(find_invalid_utf8("plain, caf\u00e9, \u4e2d, \U0001f600, a long enough stretch of ASCII"));
  const std::vector<std::pair<std::string, std::size_t>> bad = {
      {"ab\xff", 2},           {"ab\x80z", 2},      {"\xc0\xaf", 0},         {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},     {"\xed\xa0\x80", 0}, {"\xf0\x8f\xbf\xbf", 0}, {"\xf4\x90\x80\x80", 0},
      {"\xf5\x80\x80\x80", 0}, {"12345678\xc3", 8}, {"x\xe4\xb8", 1},        {"x\xf0\x9f\x98", 1},
      {"\xc3\xa9\xc3(", 2},
  };
  for (const auto& [text, at] : bad) {
    CAPTURE(at);
    CHECK(find_invalid_utf8(text) == at);
  }
  try {
    validate_utf8("ab\xff", "prompt.txt");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find("prompt.txt") != std::string::npos);
    CHECK(std::string(e.what()).find("offset 2") != std::string::npos);
  }
}

TEST_CASE("UTF-8: every character is written and read back") {
  for (char32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text = "x";
    append_utf8(text, c);
    const Utf8Char read = decode_utf8(text, 1);
    REQUIRE(read.code_point == c);
    REQUIRE(read.bytes == text.size() - 1);
    REQUIRE(previous_utf8(text, text.size()) == 1);
    REQUIRE_FALSE(find_invalid_utf8(text));
  }
}

TEST_CASE("NFC: composed, reordered and excluded characters") {
  const UnicodeTable unicode;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},
      {"cafe\u0301!", "caf\u00e9!"},
      {"e\u0301\u0301x", "\u00e9\u0301x"},
      {"\u212b\u2126", "\u00c5\u03a9"},    // singletons
      {"\u1112\u1161\u11ab", "\ud55c"},    // Hangul jamo
      {"\uac00\u11a8", "\uac01"},          // a syllable and a final consonant
      {"q\u0307\u0323", "q\u0323\u0307"},  // marks in canonical order
      {"\u00ea\u0301", "\u1ebf"},          // a composed letter that composes again
      {"\u0958", "\u0915\u093c"},          // composition exclusion
      {"\u09c7\u09be", "\u09cb"},          // a second part of combining class 0
      {"\uf900", "\u8c48"},                // compatibility ideograph with a canonical decomposition
      {"\ufb01", "\ufb01"},                // a ligature stays: NFC, not NFKC
      {"\u0301a", "\u0301a"},
      {"\U0001d15e", "\U0001d157\U0001d165"},
      {"", ""},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(unicode.nfc(text) == expected);
    CHECK(unicode.nfc(expected) == expected);
    CHECK((!unicode.surely_nfc(text) || text == expected));
  }
  // In company as alone: what may be cut apart really is independent.
  for (const auto& [text, expected] : cases) {
    CHECK(unicode.nfc("ab " + text + " \u4e2d" + text + "z") ==
          "ab " + expected + " \u4e2d" + expected + "z");
  }
}
