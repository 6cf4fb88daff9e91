// From texts to passages: what each protocol reads, keeps and leaves out.
#include "lib/eval/protocols.h"

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "tests/catch.h"
#include "tests/eval/letter_tokenizer.h"
#include "tests/eval/read_all.h"

using namespace attn;

namespace {

const LetterTokenizer kTokenizer(61);
const std::filesystem::path kData = std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data";

TextSource source(std::vector<std::string> texts) {
  return [texts = std::move(texts), next = std::size_t{0}]() mutable -> std::optional<Document> {
    if (next == texts.size()) return std::nullopt;
    const std::size_t i = next++;
    return Document{"doc" + std::to_string(i), texts[i]};
  };
}

PlanOptions options(std::int64_t context, std::int64_t stride, std::int64_t max_samples = 0,
                    std::int64_t max_tokens = 0) {
  PlanOptions out;
  out.context = context;
  out.stride = stride;
  out.max_samples = max_samples;
  out.max_tokens = max_tokens;
  return out;
}

}  // namespace

TEST_CASE("full plans one passage a document and counts what will be scored") {
  const ReadPlan plan =
      read_all(Protocol::full, source({"abcdefghij", "k", "lmnopq"}), kTokenizer, options(4, 2));
  REQUIRE(plan.passages.size() == 3);
  CHECK(plan.samples_seen == 3);
  CHECK(plan.samples_used == 2);
  CHECK(plan.tokens == 17);
  CHECK(plan.tokens_scored == 9 + 5);
  CHECK(plan.windows == 4 + 2);
  CHECK(plan.tokens_fed == 4 * 6);
  CHECK(plan.text_bytes == 17);
  CHECK(plan.estimator == Estimator::tokens);
  CHECK(plan.token_sha256 == token_stream_sha256(kTokenizer.encode("abcdefghijklmnopq")));
}

TEST_CASE("limits take the first documents and the first tokens") {
  const std::vector<std::string> texts{"abcdefghij", "klmno", "pqrst"};
  CHECK(read_all(Protocol::full, source(texts), kTokenizer, options(4, 2, 2)).tokens == 15);
  const ReadPlan cut = read_all(Protocol::full, source(texts), kTokenizer, options(4, 2, 0, 12));
  CHECK(cut.tokens == 12);
  REQUIRE(cut.passages.size() == 2);
  CHECK(cut.passages[1].ids.size() == 2);
  CHECK(cut.token_sha256 == token_stream_sha256(kTokenizer.encode("abcdefghijkl")));
}

TEST_CASE("legacy rows skips short lines but counts them and cuts long ones") {
  const ReadPlan plan = read_all(Protocol::legacy_rows, source({" \nabc\n\nx\n long line here\n", "yz"}),
                                 kTokenizer, options(6, 6));
  CHECK(plan.estimator == Estimator::passages);
  CHECK(plan.samples_seen == 6);
  CHECK(plan.samples_used == 4);  // abc, x with its line end, the long line, yz
  REQUIRE(plan.passages.size() == 4);
  CHECK(plan.passages[0].name == "doc0:2");
  CHECK(plan.passages[0].ids == kTokenizer.encode("abc\n"));
  CHECK(plan.passages[2].ids == kTokenizer.encode(" long "));
  CHECK(plan.passages[3].ids == kTokenizer.encode("yz"));
  for (const Passage& passage : plan.passages) CHECK(passage.windows.size() == 1);
}

TEST_CASE("legacy rows stops after the asked number of lines over all documents") {
  const ReadPlan plan =
      read_all(Protocol::legacy_rows, source({"ab\n\ncd\n", "ef\ngh\n"}), kTokenizer, options(8, 8, 4));
  CHECK(plan.samples_seen == 4);
  CHECK(plan.samples_used == 3);
  CHECK(plan.passages.back().ids == kTokenizer.encode("ef\n"));
}

TEST_CASE("rows of a text are its lines with their ends and blank ones empty") {
  const auto rows = text_rows(" \n = Title = \n\ntext\nlast");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].empty());
  CHECK(rows[1] == " = Title = \n");
  CHECK(rows[2].empty());
  CHECK(rows[4] == "last");
  CHECK(text_rows("").empty());
  // Python's str.strip() knows more white space than ASCII has; a zero width space is none.
  const auto blank = text_rows("\u00a0\u3000\n\x0c\x1f\r\n\u0085\n\u200b\n");
  REQUIRE(blank.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) CHECK(blank[i].empty());
  CHECK(blank[3] == "\u200b\n");
}

TEST_CASE("a context or stride that is out of range is refused before any text is read") {
  const TextSource never = []() -> std::optional<Document> { throw std::logic_error("read"); };
  CHECK_THROWS_AS(read_all(Protocol::full, never, kTokenizer, options(1, 1)), Error);
  CHECK_THROWS_AS(read_all(Protocol::full, never, kTokenizer, options(8, 9)), Error);
}

TEST_CASE("of the first 128 lines of wiki test tokens 79 are used") {
  const auto file = kData / "wikitext-2/wiki.test.tokens";
  if (!std::filesystem::exists(file)) ATTN_SKIP("../shared/data is not beside the checkout");
  const auto tokenizer = load_tokenizer(kData / "tokenizers/gpt2");
  const ReadPlan plan = read_all(Protocol::legacy_rows, source({read_text_file(file).substr(0, 200000)}),
                                 *tokenizer, options(512, 512, 128));
  CHECK(plan.samples_seen == 128);
  CHECK(plan.samples_used == 79);
}
