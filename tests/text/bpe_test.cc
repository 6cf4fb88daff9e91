// Merging, added tokens and the tokenizer's own rules, on small tokenizers made for the purpose.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/text/bpe_tokenizer.h"
#include "lib/text/merge_table.h"
#include "lib/text/tokenizer_json.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

using namespace attn;
using attn::test::Ids;
using attn::test::small_tokenizer_json;

namespace {

std::unique_ptr<Tokenizer> make(const std::vector<std::pair<std::string, std::string>>& merges,
                                const std::string& changes = "{}") {
  return std::make_unique<BpeTokenizer>(
      parse_tokenizer_json(small_tokenizer_json(merges, changes), "test.json"));
}

// The definition: look at all neighbours, do the merge of lowest rank that stands leftmost, begin again.
Ids naive_merge(Ids ids, const std::vector<Merge>& merges) {
  std::map<std::pair<TokenId, TokenId>, std::size_t> rank;
  for (std::size_t i = 0; i < merges.size(); ++i) rank[{merges[i].left, merges[i].right}] = i;
  while (true) {
    std::size_t best_rank = merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rank.find({ids[i], ids[i + 1]});
      if (found != rank.end() && found->second < best_rank) best_rank = found->second, best = i;
    }
    if (best_rank == merges.size()) return ids;
    ids[best] = merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string added(TokenId id, const std::string& content, const std::string& flags) {
  std::string text = R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content + '"';
  for (const char* flag : {"special", "normalized", "single_word", "lstrip", "rstrip"}) {
    text += std::string(", \"") + flag + "\": " + (flags.find(flag) != std::string::npos ? "true" : "false");
  }
  return text + "}";
}

}  // namespace

TEST_CASE("merging follows the definition for short and long pieces and any order of ranks") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    // Merges in random order over a growing set of ids: a later merge may need the result of an even later
    // one.
    const auto random = [&](std::uint64_t stream, std::uint64_t i, std::uint64_t n) {
      return static_cast<TokenId>(random_bits(seed, stream, i) % n);
    };
    std::vector<Merge> merges;
    std::set<std::pair<TokenId, TokenId>> seen;
    for (TokenId id = 3; id < 24; ++id) {
      const TokenId left = random(1, static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(id));
      const TokenId right = random(2, static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(id));
      if (seen.insert({left, right}).second) merges.push_back({left, right, id});
    }
    for (std::size_t i = merges.size(); i > 1; --i) {
      std::swap(merges[i - 1], merges[static_cast<std::size_t>(random(3, i, i))]);
    }
    const MergeTable table(merges);
    CHECK(table.duplicate() == -1);
    for (const std::size_t length : {0U, 1U, 2U, 5U, 31U, 32U, 33U, 34U, 120U}) {
      Ids ids(length);
      for (std::size_t i = 0; i < length; ++i) ids[i] = random(4 + length, i, 3);
      const Ids expected = naive_merge(ids, merges);
      table.apply(ids);
      INFO("seed " << seed << " length " << length);
      REQUIRE(ids == expected);
    }
  }
  CHECK(MergeTable(std::vector<Merge>{{1, 2, 3}, {2, 1, 4}, {1, 2, 5}}).duplicate() == 2);
}

TEST_CASE("a piece of a million characters takes no quadratic time") {
  const auto tokenizer = make({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  const Ids ids = tokenizer->encode(std::string(1000000, 'a'));
  CHECK(ids == Ids(125000, 258));
}

TEST_CASE("merges are done inside pieces only") {
  const auto tokenizer = make({{"a", "b"}, {"b", "\u0120"}, {"\u0120", "a"}, {"\u0120a", "b"}});
  CHECK(tokenizer->encode("ab ab") == Ids{256, 32, 256});
  CHECK(tokenizer->encode("a ac") == Ids{'a', 258, 'c'});
  CHECK(tokenizer->vocab_size() == 260);
  CHECK_FALSE(tokenizer->bos());
  CHECK_FALSE(tokenizer->eos());
}

TEST_CASE("with ignore_merges a piece that is a token is that token") {
  // "abc" is in the vocabulary, but no merge makes it.
  const std::string vocab = R"("vocab": {"abc": 300, "\u0120x": 301})";
  const auto with = make({{"a", "b"}}, R"({"model": {"ignore_merges": true, )" + vocab + "}}");
  const auto without = make({{"a", "b"}}, R"({"model": {)" + vocab + "}}");
  CHECK(with->encode("abc abc x") == Ids{300, 32, 256, 'c', 301});
  CHECK(without->encode("abc abc x") == Ids{256, 'c', 32, 256, 'c', 32, 'x'});
  CHECK(with->decode(Ids{300, 301}) == "abc x");
}

TEST_CASE("added tokens: the longest at a place and special ones by choice") {
  const auto tokenizer = make({}, R"({"added_tokens": [)" + added(300, "<a>", "special") + "," +
                                      added(301, "<a><b>", "special") + "," + added(302, "xy", "") + "]}");
  CHECK(tokenizer->encode("<a><a><b>xy") == Ids{300, 301, 302});
  CHECK(tokenizer->encode("<a>xyx", {.parse_special = false}) == Ids{'<', 'a', '>', 302, 'x'});
  CHECK(tokenizer->encode("<a") == Ids{'<', 'a'});
  CHECK(tokenizer->encode("x") == Ids{'x'});
  CHECK(tokenizer->decode(Ids{301, 302, 'z'}) == "<a><b>xyz");
  CHECK(tokenizer->vocab_size() == 303);
  // Ids 256..299 are a hole in the numbering.
  CHECK_THROWS_AS(tokenizer->decode(Ids{299}), Error);
  CHECK_THROWS_AS(tokenizer->decode(Ids{303}), Error);
  CHECK_THROWS_AS(tokenizer->decode(Ids{-1}), Error);
}

TEST_CASE("added tokens: whole words and stripped spaces") {
  const auto tokenizer = make({}, R"({"added_tokens": [)" + added(300, "ww", "single_word") + "," +
                                      added(301, "<l>", "lstrip") + "," + added(302, "<r>", "rstrip") + "]}");
  CHECK(tokenizer->encode("ww-ww") == Ids{300, '-', 300});
  CHECK(tokenizer->encode("www") == Ids{'w', 'w', 'w'});
  CHECK(tokenizer->encode("ww1 \u00e9ww") == Ids{'w', 'w', '1', ' ', 0xc3, 0xa9, 'w', 'w'});
  CHECK(tokenizer->encode("a \t\u00a0<l> b") == Ids{'a', 301, ' ', 'b'});
  CHECK(tokenizer->encode("a <r> \n b") == Ids{'a', ' ', 302, 'b'});
  CHECK(tokenizer->encode("<r>  <l>") == Ids{302, 301});
  // Tokens of spaces behind an rstrip, as tokenizers 0.23.3 has it: a space is given back, an empty match is
  // none.
  const auto spaces = make({}, R"({"added_tokens": [)" + added(300, "<r>", "rstrip") + "," +
                                   added(301, "   ", "") + "," + added(302, R"(\n)", "lstrip rstrip") + "]}");
  CHECK(spaces->encode("<r>    x") == Ids{300, 301, ' ', 'x'});
  CHECK(spaces->encode("\n\nx\n") == Ids{302, 'x', 302});
}

TEST_CASE("added tokens: before or after normalisation") {
  const auto tokenizer =
      make({}, R"({"normalizer": {"type": "NFC"}, "added_tokens": [)" +
                   added(300, R"(e\u0301)", "normalized") + "," + added(301, R"(o\u0301)", "") + "]}");
  CHECK(tokenizer->encode("e\u0301 \u00e9") == Ids{300, ' ', 300});  // looked for as U+00E9, in text made so
  CHECK(tokenizer->encode("o\u0301") == Ids{301});
  CHECK(tokenizer->encode("\u00f3") == Ids{0xc3, 0xb3});  // not normalised: only as it is written
}

TEST_CASE("invalid UTF-8 is refused with its place") {
  const auto tokenizer = make({});
  try {
    tokenizer->encode("abc\xff");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find("offset 3") != std::string::npos);
  }
  CHECK(tokenizer->encode(std::string("\0\x7f", 2)) == Ids{0, 0x7f});
}

TEST_CASE("threads may share a tokenizer") {
  const auto tokenizer = make({{"a", "b"}, {"ab", "c"}, {"\u0120", "ab"}});
  std::string text;
  for (std::uint64_t i = 0; i < 20000; ++i) text += "abc d"[random_bits(7, 0, i) % 5];
  const Ids expected = tokenizer->encode(text);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) right += tokenizer->encode(text) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 40);
  CHECK(tokenizer->decode(expected) == text);
}
