// attnppl and its data sets: documents by name, splits, titles, line ends, and limited memory.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "apps/attnppl/score_case.h"
#include "lib/core/error.h"
#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"
#include "tests/cli/tiny_model.h"

using namespace attn;
namespace fs = std::filesystem;

namespace {

const fs::path kData = fs::path(ATTN_SOURCE_DIR) / "../shared/data";
const std::string kText = "The ferry leaves at six.\nNobody on the quay looked up.\n";

struct Setting {
  TemporaryFolder folder;
  std::string model = make_tiny_model(folder.path() / "tiny");
  fs::path books = folder.path() / "books";
  std::string out = (folder.path() / "out").string();

  Setting() {
    fs::create_directories(books);
    for (const char* name : {"10146.txt", "9931.txt", "1022.txt", "2701.txt"})
      write_text_file(books / name, kText + name + "\n");
    write_text_file(books / "metadata.csv", "10146,\"Pioneers, a book\",1908,u\n2701,Moby Dick,1851,u\n");
  }

  ProgramResult run(std::vector<std::string> more) const {
    std::vector<std::string> all{"--model", model, "--random-weights", "--device", "cpu",
                                 "--out",   out,   "--mode",           "flash"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("attnppl", all);
  }
  ResultRecord last() const {
    const auto records = read_results(std::vector<fs::path>{out}).records;
    REQUIRE(!records.empty());
    return records.back();
  }
};

std::string text_of(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  return value != nullptr ? display(*value) : "missing";
}

std::vector<std::string> column(const ResultRecord& record, std::string_view key) {
  const Value* documents = record.extra.find("documents");
  REQUIRE(documents != nullptr);
  std::vector<std::string> out;
  for (const Value& row : *documents->array()) out.push_back(text_of(*row.fields(), key));
  return out;
}

std::string notes_of(const ResultRecord& record) {
  std::string out;
  if (const Value* notes = record.extra.find("notes")) {
    for (const Value& note : *notes->array()) out += display(note) + "\n";
  }
  return out;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("documents are chosen by name and keep the order of the data set") {
  const Setting setting;
  REQUIRE(setting.run({"--dataset", setting.books.string(), "--documents", "2701,10146.txt"}).exit_code == 0);
  const ResultRecord record = setting.last();
  CHECK(column(record, "name") == std::vector<std::string>{"10146.txt", "2701.txt"});
  CHECK(column(record, "title") == std::vector<std::string>{"Pioneers, a book", "Moby Dick"});
  CHECK(text_of(record.parameters, "documents") == "2701,10146.txt");
  const ProgramResult unknown =
      setting.run({"--dataset", setting.books.string(), "--documents", "10146,nobody"});
  CHECK(unknown.exit_code == 3);
  CHECK(contains(unknown.err, "has no document nobody; among its 4 are 10146.txt"));
  CHECK(setting.run({"--dataset", setting.books.string(), "--documents", "a,a"}).exit_code == 2);
}

TEST_CASE("a split takes its books and names the missing ones and whose words are counted") {
  const Setting setting;
  const ProgramResult result = setting.run({"--dataset", setting.books.string(), "--split", "test"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const ResultRecord record = setting.last();
  CHECK(column(record, "name") == std::vector<std::string>{"10146.txt", "9931.txt"});
  CHECK(column(record, "title") == std::vector<std::string>{"Pioneers, a book", "missing"});
  const std::string missing =
      "98 of the 100 books of PG-19's test split are missing in " + setting.books.string() + ": 10321,10356,";
  CHECK(occurrences(result.out, missing) == 1);
  CHECK(contains(notes_of(record), missing));
  CHECK(contains(notes_of(record), "the published 6966499 words of PG-19's test split are not used"));
  CHECK(text_of(record.metrics, "words_counted_by") == "attnppl");
  CHECK(text_of(record.parameters, "dataset") == setting.books.string() + "/test");

  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--dataset", setting.books.string(), "--split", "train"},
           {"--dataset", (setting.books / "10146.txt").string(), "--split", "test"},
           {"--dataset", "sample", "--split", "test"},
           {"--dataset", "pg19", "--split", "test", "--pg19-mode", "sample1"},
           {"--dataset", "pg19", "--documents", "1", "--pg19-url", "https://h/1.txt"},
           {"--dataset", setting.books.string(), "--line-ends", "cr"}}) {
    const ProgramResult refused = setting.run(wrong);
    CAPTURE(wrong.back(), refused.err);
    CHECK(refused.exit_code == 2);
  }
  const ProgramResult legacy =
      setting.run({"--dataset", "wikitext-103", "--protocol", "legacy-rows", "--split", "validation"});
  CHECK(legacy.exit_code == 4);
  CHECK(contains(legacy.err, "WikiText-2"));
}

TEST_CASE("titles that cannot be read are left out with a note") {
  const Setting setting;
  write_text_file(setting.books / "metadata.csv", "10146,a,1908\n");
  REQUIRE(setting.run({"--dataset", (setting.books / "10146.txt").string()}).exit_code == 0);
  CHECK(contains(notes_of(setting.last()), "titles of the books are left out"));
  CHECK(column(setting.last(), "title") == std::vector<std::string>{"missing"});
}

TEST_CASE("CRLF is kept with one warning or read as LF") {
  const Setting setting;
  const fs::path lf = setting.folder.path() / "lf.txt", crlf = setting.folder.path() / "crlf.txt";
  write_text_file(lf, kText + "\nA lone \r stays.\n");
  write_text_file(crlf,
                  "The ferry leaves at six.\r\nNobody on the quay looked up.\r\n\r\nA lone \r stays.\r\n");
  const auto ids = [&](const fs::path& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"--dataset", file.string()});
    const ProgramResult result = setting.run(more);
    CAPTURE(result.out, result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(text_of(setting.last().parameters, "line_ends") == (more.size() > 2 ? "lf" : "keep"));
    return std::pair{text_of(setting.last().parameters, "token_sha256"), result.err};
  };
  const auto [plain, no_warning] = ids(lf, {});
  CHECK_FALSE(contains(no_warning, "CRLF"));
  const auto [unified, none] = ids(crlf, {"--line-ends", "lf"});
  CHECK(unified == plain);
  CHECK_FALSE(contains(none, "CRLF"));
  const auto [kept, warning] = ids(crlf, {});
  CHECK(kept != plain);
  CHECK(contains(warning, "4 line ends are CRLF (the first in crlf.txt)"));
  CHECK(contains(notes_of(setting.last()), "4 line ends are CRLF"));
  const ProgramResult twice =
      setting.run({"--dataset", crlf.string(), "--protocol", "legacy-window", "--context", "16"});
  CHECK(occurrences(twice.err, "CRLF") == 1);  // though the full protocol beside it reads the file again
  const ProgramResult only =
      run_program("attnppl", {"--tokenize-only", "--model", setting.model, "--dataset", crlf.string()});
  CHECK(contains(only.err, "4 line ends are CRLF"));
}

TEST_CASE("the published words hold for whole books of the published sizes alone") {
  const TemporaryFolder folder;
  for (const Pg19File& file : facts_of(Pg19Split::validation).files)
    write_text_file(folder.path() / (std::to_string(file.book) + ".txt"),
                    std::string(static_cast<std::size_t>(file.bytes), 'a'));
  PplOptions options;
  options.dataset = folder.path().string();
  options.split = "validation";
  const auto words = [&](std::int64_t max_chars, std::int64_t documents) {
    Dataset dataset = find_dataset(options, Protocol::full);
    dataset.max_chars = max_chars;
    DatasetTexts texts(dataset);
    while (texts.documents() != documents && texts.next()) continue;
    CHECK(texts.notes().size() == (texts.published_words() ? 0 : 1));
    return texts.published_words();
  };
  CHECK(words(0, -1) == 3007061);
  CHECK_FALSE(words(1000000, -1));
  CHECK_FALSE(words(0, 49));
  options.documents = {"1022"};
  CHECK_FALSE(words(0, -1));
  options.documents.clear();
  write_text_file(folder.path() / "1022.txt", std::string(68995, 'a'));
  CHECK_FALSE(words(0, -1));
}

TEST_CASE("word perplexity is over the published words where the full protocol scored all of them") {
  PplCase ppl_case;
  ppl_case.dataset.pg19_split = Pg19Split::validation;
  PplCaseResult result;
  const auto counted = [&] {
    result.published_words = false;
    result.text.published_words = 1000;
    result.variants.assign(1, {});
    PerplexityResult& score = result.variants.front().score;
    score.nll_sum = 2000;
    score.words_scored = 1250;
    score.perplexity = 3;
    score.word_perplexity = std::exp(1.6);
    return count_published_words(result, ppl_case).value_or("nothing");
  };
  CHECK(contains(counted(), "over the published 1000 words of PG-19's validation split"));
  CHECK(result.published_words);
  CHECK(result.variants.front().score.words_scored == 1000);
  CHECK(*result.variants.front().score.word_perplexity == Approx(std::exp(2.0)));
  for (int i = 0; i < 3; ++i) {
    ppl_case.protocol = i == 0 ? Protocol::lm_eval : Protocol::full;
    ppl_case.plan_options.max_tokens = i == 1 ? 10 : 0;
    result.stopped = i == 2;
    CHECK(contains(counted(), "are not used"));
    CHECK_FALSE(result.published_words);
    CHECK(*result.variants.front().score.word_perplexity == Approx(std::exp(1.6)));
  }
  result.text.published_words.reset();
  CHECK_FALSE(count_published_words(result, ppl_case));
}

TEST_CASE("the books beside the checkout show their titles and have the published counts of ids") {
  if (!fs::exists(kData)) ATTN_SKIP("../shared/data is not beside the checkout");
  PplOptions options;
  options.dataset = (kData / "pg19").string();
  options.split = "test";
  const Dataset dataset = find_dataset(options, Protocol::full);
  CHECK(dataset.files.size() == 4);
  DatasetTexts texts(dataset);
  std::vector<std::string> titles;
  while (const auto book = texts.next()) titles.push_back(book->title);
  REQUIRE(titles.size() == 4);
  CHECK(titles[2] == "Travels in Morocco Volume 2 by James Richardson");
  const ProgramResult ids =
      run_program("attnppl", {"--tokenize-only", "--model", (kData / "tokenizers/pythia").string(),
                              "--dataset", options.dataset, "--split", "test"});
  CHECK(contains(ids.out, "4 of 4 documents used, 1219175 bytes"));
  CHECK(contains(ids.out, "96 of the 100 books"));
  const ProgramResult two =
      run_program("attnppl", {"--tokenize-only", "--model", (kData / "tokenizers/pythia").string(),
                              "--dataset", options.dataset, "--documents", "10146,2701"});
  CHECK(contains(two.out, " 382652 tokens"));  // 59,179 and 323,473: golden/counts_and_hashes.json
}

TEST_CASE("articles of WikiText have rows of their own with their headings as titles") {
  const Setting setting;
  const fs::path file = setting.folder.path() / "wiki.raw";
  write_text_file(
      file, " \n = The lobster = \n \n" + kText + " = = Tail = = \n" + kText + " = Second = \n" + kText);
  REQUIRE(setting.run({"--dataset", file.string(), "--text", "pages"}).exit_code == 0);
  const ResultRecord record = setting.last();
  CHECK(column(record, "name") == std::vector<std::string>{"wiki.raw:1", "wiki.raw:2"});
  CHECK(column(record, "title") == std::vector<std::string>{"The lobster", "Second"});
  CHECK(text_of(record.parameters, "sample_unit") == "page");
  REQUIRE(setting.run({"--dataset", file.string(), "--protocol", "hf-strided"}).exit_code == 0);
  CHECK(column(setting.last(), "title") == std::vector<std::string>{"missing"});
}

TEST_CASE("a compressed text of three times the memory that may be had is tokenised") {
#if defined(__SANITIZE_ADDRESS__)
  ATTN_SKIP("a sanitizer takes more memory than the limit for itself");
#endif
  // 160 MiB of writable memory, of which OpenBLAS takes 128 when the program starts.
  constexpr rlim_t kLimit = rlim_t{160} << 20;
  constexpr std::size_t kDocuments = 16;
  std::string frame;
  std::size_t text_bytes = 0;
  for (std::size_t i = 0; i < kDocuments; ++i) {
    std::string text;
    while (text.size() < 500000) text += "The water and the little house were there when they came back. ";
    text_bytes += text.size();
    frame += to_json(Fields{{"text", text}}) + "\n";
  }
  std::string packed(ZSTD_compressBound(frame.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), frame.data(), frame.size(), 1));
  const std::size_t frames = 3 * kLimit / text_bytes + 1;
  const TemporaryFolder folder;
  const std::string set = (folder.path() / "set.jsonl.zst").string(), out = (folder.path() / "out").string();
  {
    std::ofstream file(set, std::ios::binary);
    for (std::size_t i = 0; i < frames; ++i) file << packed;  // frames end to end are one .zst
  }
  // A data set under the limit; killed after so many seconds, as OpenBLAS tries for ever where its buffer
  // does not fit.
  const auto tokenize = [&](const std::string& dataset, unsigned seconds) {
    const std::string program = std::string(ATTN_BIN_DIR) + "/attnppl";
    const std::string model = (fs::path(ATTN_SOURCE_DIR) / "models/demo").string();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit limit{kLimit, kLimit};
      setrlimit(RLIMIT_DATA, &limit);
      setenv("OMP_NUM_THREADS", "1", 1);
      alarm(seconds);
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      dup2(STDOUT_FILENO, STDERR_FILENO);
      execl(program.c_str(), "attnppl", "--tokenize-only", "--model", model.c_str(), "--dataset",
            dataset.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  if (!tokenize("sample", 10)) ATTN_SKIP("the program does not start with 160 MiB on this machine");
  const bool finished = tokenize(set, 300);
  const std::string said = read_text(out);
  CAPTURE(said);
  CHECK(finished);
  const std::size_t documents = frames * kDocuments;
  CHECK(contains(said, std::to_string(documents) + " of " + std::to_string(documents) + " documents used"));
  CHECK(contains(said, "\nbytes " + std::to_string(frames * text_bytes) + "\n"));
}
