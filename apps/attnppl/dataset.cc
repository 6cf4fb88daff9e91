// Where the named data sets lie, and the limits on their texts.
#include "apps/attnppl/dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "lib/core/error.h"
#include "lib/core/text_file.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

// The file, or with .zst behind; nothing if neither is there.
std::optional<fs::path> plain_or_zst(const fs::path& file) {
  if (fs::is_regular_file(file)) return file;
  const fs::path packed = file.string() + ".zst";
  if (fs::is_regular_file(packed)) return packed;
  return std::nullopt;
}

constexpr std::size_t kMaxMetadataBytes = std::size_t{64} << 20;  // PG-19's own is 3 MB

Dataset wikitext(const PplOptions& options, Protocol protocol) {
  const bool large = options.dataset == "wikitext-103";
  const std::string set = large ? "wikitext-103" : "wikitext";  // its other name says the same
  const bool validation = options.split == "validation";
  const bool legacy = protocol == Protocol::legacy_rows;
  if (legacy && (large || validation)) {
    fail(ErrorKind::unsupported,
         "protocol legacy-rows reads the test split of WikiText-2 in its .tokens form, which is the only one "
         "that tools/fetch_datasets brings; name another file with --dataset");
  }
  const char* const file = legacy ? "wiki.test.tokens" : validation ? "wiki.valid.raw" : "wiki.test.raw";
  const auto path = plain_or_zst(source_path("datasets") / set / file);
  if (!path)
    fail(ErrorKind::bad_input, "datasets/{0}/{1}.zst is not there; run: tools/fetch_datasets {0}", set, file);
  return {validation ? set + "/validation" : set, {*path}};
}

// Titles from the metadata.csv of a folder, if there is one; what is wrong with it becomes a note.
void add_titles(Dataset& dataset, const fs::path& folder) {
  const fs::path file = folder / "metadata.csv";
  if (!fs::is_regular_file(file)) return;
  const bool books = std::any_of(dataset.files.begin(), dataset.files.end(), [](const fs::path& path) {
    return pg19_book_of(path.filename().string()).has_value();
  });
  if (!books) return;
  try {
    for (Pg19Title& title : parse_pg19_metadata(read_text_file(file, kMaxMetadataBytes), file.string()))
      dataset.titles.emplace(title.book, std::move(title.title));
  } catch (const Error& error) {
    dataset.notes.push_back(fmt::format("the titles of the books are left out: {}", error.what()));
  }
}

Dataset pg19_split(const PplOptions& options, const fs::path& folder) {
  const Pg19Split split = kPg19SplitNames.parse(options.split, "--split");
  Pg19Books books = find_pg19_books(folder, split);
  Dataset dataset{fmt::format("{}/{}", options.dataset, options.split), std::move(books.files)};
  dataset.pg19_split = split;
  add_titles(dataset, folder);
  if (!books.missing.empty() && options.documents.empty()) {
    dataset.notes.push_back(fmt::format("{} of the {} books of PG-19's {} split are missing in {}: {}",
                                        books.missing.size(), facts_of(split).files.size(), options.split,
                                        folder.string(), fmt::join(books.missing, ",")));
  }
  return dataset;
}

// "https://.../train/23381.txt" -> "23381"
std::string book_of(const std::string& url) {
  std::string book = url.substr(url.find_last_of('/') + 1);
  book.resize(std::min(book.size(), book.find('.')));
  if (book.empty()) fail(ErrorKind::usage, "--pg19-url '{}' does not end in a book's file name", url);
  return book;
}

Dataset pg19(const PplOptions& all_options) {
  const Pg19Options& options = all_options.pg19;
  const fs::path folder = source_path("datasets/pg19");
  if (!options.sample_path.empty()) {
    if (!fs::exists(options.sample_path)) {
      fail(ErrorKind::bad_input,
           "--pg19-sample-path {}: does not exist; leave it out to take a book of "
           "datasets/pg19 (tools/fetch_datasets pg19)",
           options.sample_path);
    }
    return {options.sample_path, document_files(options.sample_path)};
  }
  if (!options.url.empty()) {
    const std::string book = book_of(options.url);
    const auto path = plain_or_zst(folder / (book + ".txt"));
    if (!path) {
      fail(ErrorKind::bad_input,
           "datasets/pg19/{0}.txt.zst is not there and attnppl never downloads; run: tools/fetch_datasets "
           "pg19 "
           "--books {0}",
           book);
    }
    return {"pg19/" + path->filename().string(), {*path}};
  }
  if (!all_options.split.empty() && fs::is_directory(folder)) return pg19_split(all_options, folder);
  std::vector<fs::path> books;
  if (fs::is_directory(folder)) {
    try {
      books = document_files(folder);
    } catch (const Error&) {  // no text in it: the message below says what to do
    }
  }
  if (books.empty())
    fail(ErrorKind::bad_input, "datasets/pg19 holds no book; run: tools/fetch_datasets pg19");
  if (options.mode == "full" || !all_options.documents.empty()) return {"pg19", std::move(books)};
  return {"pg19/" + books.front().filename().string(), {books.front()}};
}

Dataset file_or_folder(const PplOptions& options) {
  const fs::path path = options.dataset;
  if (!fs::exists(path)) {
    fail(ErrorKind::bad_input,
         "--dataset {}: there is no such file or folder, and it is not one of the names sample, wikitext, "
         "wikitext-2, wikitext-103, pg19",
         options.dataset);
  }
  if (options.split.empty()) return {options.dataset, document_files(path)};
  if (!fs::is_directory(path)) {
    fail(ErrorKind::usage, "--split is for wikitext, pg19 or a folder of its books; {} is a file",
         options.dataset);
  }
  return pg19_split(options, path);
}

std::size_t of_published_size(const Pg19SplitFacts& facts, const std::vector<Pg19File>& read) {
  std::size_t count = 0;
  for (const Pg19File& file : read) {
    for (const Pg19File& published : facts.files)
      count += published.book == file.book && published.bytes == file.bytes ? 1 : 0;
  }
  return count;
}

}  // namespace

Dataset find_dataset(const PplOptions& options, Protocol protocol) {
  const bool pg19_name = options.dataset == "pg19";
  Dataset dataset = options.dataset == "sample"
                        ? Dataset{"sample", document_files(source_path("datasets/sample"))}
                    : is_wikitext(options.dataset) ? wikitext(options, protocol)
                    : pg19_name                    ? pg19(options)
                                                   : file_or_folder(options);
  if (!dataset.pg19_split) add_titles(dataset, dataset.files.front().parent_path());
  if (pg19_name) dataset.max_chars = options.pg19.max_chars.value_or(0);
  dataset.reading = {options.documents, kLineEndsNames.parse(options.line_ends, "--line-ends")};
  return dataset;
}

DatasetTexts::DatasetTexts(const Dataset& dataset)
    : dataset_(dataset), reader_(dataset.files, dataset.name, dataset.reading) {}

std::optional<Document> DatasetTexts::next() {
  if (dataset_.max_lines > 0 && lines_ >= dataset_.max_lines) return std::nullopt;
  std::optional<Document> document = reader_.next();
  if (!document) return document;
  std::string_view kept = document->text;
  if (dataset_.pg19_split)
    books_.push_back({pg19_book_of(document->name).value_or(0), static_cast<std::int32_t>(kept.size())});
  if (dataset_.max_chars > 0) kept = first_chars(kept, dataset_.max_chars);
  if (dataset_.max_lines > 0) {
    kept = first_lines(kept, dataset_.max_lines - lines_);
    lines_ += static_cast<std::int64_t>(text_rows(kept).size());
  }
  if (kept.size() < document->text.size()) cut_ = true;
  document->text.resize(kept.size());
  sha_.update(std::as_bytes(std::span(document->text)));
  const auto book = pg19_book_of(document->name);
  if (const auto title = dataset_.titles.find(book.value_or(-1)); title != dataset_.titles.end())
    document->title = title->second;
  ++documents_;
  return document;
}

std::optional<std::int64_t> DatasetTexts::published_words() const {
  if (!dataset_.pg19_split || cut_) return std::nullopt;
  return attn::published_words(*dataset_.pg19_split, books_);
}

std::vector<std::string> DatasetTexts::notes() const {
  std::vector<std::string> notes;
  if (auto warning = reader_.line_end_warning()) notes.push_back(*warning + " (--line-ends lf unifies them)");
  if (dataset_.pg19_split && !published_words()) {
    const Pg19SplitFacts& facts = facts_of(*dataset_.pg19_split);
    notes.push_back(fmt::format(
        "the published {} words of PG-19's {} split are not used: they belong to its {} whole books "
        "as published; read: {}, of the published size: {}. Words are counted",
        facts.words, kPg19SplitNames.name(facts.split), facts.files.size(), books_.size(),
        of_published_size(facts, books_)));
  }
  return notes;
}

std::string_view first_chars(std::string_view text, std::int64_t count) {
  std::int64_t seen = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;  // not inside a character
    if (begins && seen++ == count) return text.substr(0, at);
  }
  return text;
}

std::string_view first_lines(std::string_view text, std::int64_t count) {
  std::size_t end = 0;
  for (std::int64_t line = 0; line < count; ++line) {
    const std::size_t next = text.find('\n', end);
    if (next == std::string_view::npos) return text;
    end = next + 1;
  }
  return text.substr(0, end);
}

}  // namespace attn
