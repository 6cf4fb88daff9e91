// Datasets, windows and prompts.
#include "lib/text/document.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <zstd.h>

#include "lib/core/error.h"
#include "lib/text/prompts.h"
#include "lib/text/windows.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

using namespace attn;
using attn::test::Ids;
using attn::test::TemporaryFolder;

namespace {

std::string packed(const std::string& bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), bytes.data(), bytes.size(), 3));
  return result;
}

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

NamedTexts read_all(const std::filesystem::path& path) {
  DocumentReader reader(path);
  NamedTexts texts;
  while (const auto document = reader.next()) texts.emplace_back(document->name, document->text);
  CHECK_FALSE(reader.next());
  return texts;
}

std::string message_of(const std::filesystem::path& path) {
  try {
    read_all(path);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("documents: a file of text is one document with its bytes untouched") {
  const TemporaryFolder folder;
  const std::string text = "one\r\n two \n\n";
  CHECK(read_all(folder.write("a.txt", text)) == NamedTexts{{"a.txt", text}});
  CHECK(read_all(folder.write("a.other", text)) == NamedTexts{{"a.other", text}});
  CHECK(read_all(folder.write("a.txt.zst", packed(text))) == NamedTexts{{"a.txt.zst", text}});
}

TEST_CASE("documents: each JSON line is one") {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"a\\r\\nb\", \"id\": 1}\n{\"text\": \"\\u00e9\"}\r\n{\"text\":\"\"}";
  const NamedTexts expected = {{"s.jsonl:1", "a\r\nb"}, {"s.jsonl:2", "\u00e9"}, {"s.jsonl:3", ""}};
  CHECK(read_all(folder.write("s.jsonl", lines)) == expected);
  const NamedTexts of_zst = read_all(folder.write("s.jsonl.zst", packed(lines)));
  REQUIRE(of_zst.size() == 3);
  CHECK(of_zst[1] == std::pair<std::string, std::string>("s.jsonl.zst:2", "\u00e9"));
}

TEST_CASE("documents: a folder is its text files in the order of their names") {
  const TemporaryFolder folder;
  folder.write("b.txt", "B");
  folder.write("c.jsonl", "{\"text\": \"C1\"}\n{\"text\": \"C2\"}\n");
  folder.write("a.raw.zst", packed("A"));
  folder.write("d.tokens", "D");
  folder.write("metadata.csv", "no text");
  folder.write("inner.txt/z.txt", "Z");
  CHECK(read_all(folder.path()) ==
        NamedTexts{
            {"a.raw.zst", "A"}, {"b.txt", "B"}, {"c.jsonl:1", "C1"}, {"c.jsonl:2", "C2"}, {"d.tokens", "D"}});
  CHECK(document_files(folder.path()).size() == 4);
}

TEST_CASE("documents: bad files are named with the line") {
  const TemporaryFolder folder;
  CHECK(has(message_of(folder.path() / "absent.txt"), "absent.txt"));
  CHECK(has(message_of(folder.path()), "*.jsonl"));
  CHECK(has(message_of(folder.write("empty.txt", "")), "empty"));
  CHECK(has(message_of(folder.write("empty.txt.zst", packed(""))), "empty"));
  CHECK(has(message_of(folder.write("empty.jsonl", "")), "empty"));
  CHECK(has(message_of(folder.write("latin1.txt", "caf\xe9 au lait")), "offset 3"));
  CHECK(has(message_of(folder.write("torn.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b")), "torn.jsonl:2"));
  CHECK(has(message_of(folder.path() / "torn.jsonl"), "cut off"));
  CHECK(has(message_of(folder.write("key.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")), "key.jsonl:2"));
  CHECK(has(message_of(folder.write("type.jsonl", "{\"text\": 3}\n")), "type.jsonl:1"));
  CHECK(has(message_of(folder.write("list.jsonl", "[\"text\"]\n")), "list.jsonl:1"));
  CHECK(has(message_of(folder.write("blank.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n")),
            "blank.jsonl:2"));
  CHECK(has(message_of(folder.write("utf8.jsonl", "{\"text\": \"\xff\"}\n")), "utf8.jsonl:1"));
  const std::string whole = packed(std::string(5000, 'x').append("end"));
  CHECK(has(message_of(folder.write("short.txt.zst", whole.substr(0, whole.size() - 3))), "truncated"));
  CHECK(has(message_of(folder.write("wrong.txt.zst", "this is no zstd")), "wrong.txt.zst"));
}

TEST_CASE("documents: a list of names selects and reads nothing else") {
  const TemporaryFolder folder;
  folder.write("10.txt.zst", packed("ten"));
  folder.write("11.txt", "eleven");
  folder.write("12.txt", "not UTF-8: \xff");
  folder.write("13.txt.zst", "no zstd");
  folder.write("set.jsonl", "{\"text\": \"a\"}\nno JSON\n{\"text\": \"c\"}\n");
  const auto selected = [&](std::vector<std::string> names) {
    DocumentReader reader(folder.path(), {std::move(names), LineEnds::keep});
    std::string texts;
    while (const auto document = reader.next()) texts += document->name + "=" + document->text + " ";
    return texts;
  };
  CHECK(selected({"10", "set:3", "11.txt"}) == "10.txt.zst=ten 11.txt=eleven set.jsonl:3=c ");
  CHECK(selected({"10.txt"}) == "10.txt.zst=ten ");
  CHECK(selected({"set.jsonl:1", "10.txt.zst"}) == "10.txt.zst=ten set.jsonl:1=a ");
  for (const auto& [names, part] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{{{"10", "99", "7"}, "no document 99, 7"},
                                                                     {{"99"}, "10.txt.zst"},
                                                                     {{"12"}, "offset 11"},
                                                                     {{"set:2"}, "set.jsonl:2"},
                                                                     {{"10", "10"}, "twice"},
                                                                     {{""}, "empty name"}}) {
    try {
      selected(names);
      FAIL("accepted " << names[0]);
    } catch (const Error& e) {
      INFO(e.what());
      CHECK(has(e.what(), part));
    }
  }
  const TemporaryFolder twins;
  twins.write("a.raw", "raw");
  twins.write("a.txt", "text");
  CHECK_THROWS_AS(DocumentReader(twins.path(), {{"b"}, LineEnds::keep}).next(), Error);
  DocumentReader both(twins.path(), {{"a"}, LineEnds::keep});
  CHECK(both.next()->text == "raw");
  CHECK_THROWS_AS(both.next(), Error);  // the name fits two
  DocumentReader full(twins.path(), {{"a.txt"}, LineEnds::keep});
  CHECK(full.next()->text == "text");
  CHECK_FALSE(full.next());
}

TEST_CASE("documents: the name in full comes before a shorter form of another") {
  const TemporaryFolder folder;
  folder.write("a.txt", "plain");
  folder.write("a.txt.zst", packed("packed"));
  DocumentReader reader(folder.path(), {{"a.txt"}, LineEnds::keep});
  CHECK(reader.next()->text == "plain");
  CHECK_FALSE(reader.next());
}

TEST_CASE("documents: line ends stay with a warning or become LF") {
  const TemporaryFolder folder;
  const std::string unix_text = "one\n\ntwo\rthree\n";
  const std::string dos_text = "one\r\n\r\ntwo\rthree\r\n";
  folder.write("a.txt", unix_text);
  folder.write("b.txt", dos_text);
  DocumentReader keep(folder.path());
  CHECK(keep.next()->text == unix_text);
  CHECK_FALSE(keep.line_end_warning());
  CHECK(keep.next()->text == dos_text);
  REQUIRE(keep.line_end_warning());
  CHECK(has(*keep.line_end_warning(), "3 line ends are CRLF (the first in b.txt)"));
  DocumentReader lf(folder.path(), {{}, LineEnds::lf});
  CHECK(lf.next()->text == unix_text);
  CHECK(lf.next()->text == unix_text);
  CHECK_FALSE(lf.line_end_warning());
  std::string lone = "\r\r\n\n\r";
  CHECK(unify_line_ends(lone) == 1);
  CHECK(lone == "\r\n\n\r");
}

TEST_CASE("windows: every token but the first is scored exactly once with enough context") {
  for (std::int64_t n = 0; n <= 40; ++n) {
    for (std::int64_t context = 2; context <= 12; ++context) {
      for (std::int64_t stride = 1; stride <= context; ++stride) {
        CAPTURE(n, context, stride);
        const std::vector<Window> windows = plan_windows(n, context, stride);
        std::vector<int> scored(static_cast<std::size_t>(n), 0);
        const std::int64_t kept = std::max<std::int64_t>(1, context - stride);
        for (std::size_t w = 0; w < windows.size(); ++w) {
          const Window& window = windows[w];
          REQUIRE(
              (window.begin >= 0 && window.end <= n && window.tokens() <= context && window.scored() >= 1));
          REQUIRE(window.begin < window.first_scored);
          REQUIRE(window.first_scored - window.begin == (w == 0 ? 1 : kept));
          if (w + 1 < windows.size()) REQUIRE(window.tokens() == context);
          for (std::int64_t t = window.first_scored; t < window.end; ++t)
            ++scored[static_cast<std::size_t>(t)];
        }
        for (std::int64_t t = 0; t < n; ++t) REQUIRE(scored[static_cast<std::size_t>(t)] == (t > 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("windows: the Hugging Face recipe with overlap and one token of context without") {
  CHECK(plan_windows(2000, 1024, 512) ==
        std::vector<Window>{{0, 1024, 1}, {512, 1536, 1024}, {1024, 2000, 1536}});
  CHECK(plan_windows(7, 4, 4) == std::vector<Window>{{0, 4, 1}, {3, 7, 4}});
  CHECK(plan_windows(4, 4, 2) == std::vector<Window>{{0, 4, 1}});
  CHECK(plan_windows(1, 4, 2).empty());
  CHECK_THROWS_AS(plan_windows(10, 4, 0), Error);
  CHECK_THROWS_AS(plan_windows(10, 4, 5), Error);
  CHECK_THROWS_AS(plan_windows(10, 1, 1), Error);
  CHECK_THROWS_AS(plan_windows(-1, 4, 1), Error);
}

TEST_CASE("random prompts: a function of seed and row, inside the vocabulary, prefixes of each other") {
  const Ids prompt = random_prompt(50257, 5000, 7);
  CHECK(prompt.size() == 5000);
  CHECK(prompt == random_prompt(50257, 5000, 7));
  CHECK(std::equal(prompt.begin(), prompt.begin() + 100, random_prompt(50257, 100, 7).begin()));
  CHECK(prompt != random_prompt(50257, 5000, 8));
  CHECK(prompt != random_prompt(50257, 5000, 7, 1));
  CHECK(*std::min_element(prompt.begin(), prompt.end()) >= 0);
  CHECK(*std::max_element(prompt.begin(), prompt.end()) < 50257);
  const Ids small = random_prompt(3, 3000, 1);
  for (const TokenId id : {0, 1, 2}) CHECK(std::count(small.begin(), small.end(), id) > 900);
  CHECK(random_prompt(1, 4, 9) == Ids{0, 0, 0, 0});
  CHECK(random_prompt(10, 0, 9).empty());
  CHECK_THROWS_AS(random_prompt(0, 4, 9), Error);
  CHECK_THROWS_AS(random_prompt(10, -1, 9), Error);
}

TEST_CASE("prompts are cut and brought to an exact length") {
  const Ids ids = {1, 2, 3};
  CHECK(truncate_prompt(ids, 2) == Ids{1, 2});
  CHECK(truncate_prompt(ids, 9) == ids);
  CHECK_THROWS_AS(truncate_prompt(ids, 0), Error);
  CHECK(fit_prompt(ids, 2) == Ids{1, 2});
  CHECK(fit_prompt(ids, 7) == Ids{1, 2, 3, 1, 2, 3, 1});
  CHECK_THROWS_AS(fit_prompt(Ids{}, 2), Error);
  CHECK_THROWS_AS(fit_prompt(ids, 0), Error);
}

TEST_CASE("prompt files: empty, missing or not UTF-8 is refused") {
  const TemporaryFolder folder;
  CHECK(read_prompt_file(folder.write("p.txt", "Hello\n")) == "Hello\n");
  CHECK_THROWS_AS(read_prompt_file(folder.write("e.txt", "")), Error);
  CHECK_THROWS_AS(read_prompt_file(folder.write("x.txt", "a\xc3")), Error);
  CHECK_THROWS_AS(read_prompt_file(folder.path() / "absent.txt"), Error);
  CHECK_THROWS_AS(read_prompt_file(folder.path()), Error);
}

TEST_CASE("token streams have one fingerprint") {
  // sha256 of the bytes 01 00 00 00 00 01 00 00, by sha256sum.
  CHECK(token_stream_sha256(Ids{1, 256}) ==
        "242045e2f1bb37769b514f182fd91b3d215324cb57f187cced1e9c62921dbac3");
}
