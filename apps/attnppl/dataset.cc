// Where the named data sets lie, and the limits on their texts.
#include "apps/attnppl/dataset.h"

#include "lib/core/error.h"

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

Dataset wikitext(Protocol protocol) {
  const char* const file = protocol == Protocol::legacy_rows ? "wiki.test.tokens" : "wiki.test.raw";
  const auto path = plain_or_zst(source_path("datasets/wikitext") / file);
  if (!path) {
    fail(ErrorKind::bad_input, "datasets/wikitext/{}.zst is not there; run: tools/fetch_datasets wikitext",
         file);
  }
  return {"wikitext", *path};
}

// "https://.../train/23381.txt" -> "23381"
std::string book_of(const std::string& url) {
  std::string book = url.substr(url.find_last_of('/') + 1);
  book.resize(std::min(book.size(), book.find('.')));
  if (book.empty()) fail(ErrorKind::usage, "--pg19-url '{}' does not end in a book's file name", url);
  return book;
}

Dataset pg19(const Pg19Options& options) {
  const fs::path folder = source_path("datasets/pg19");
  const std::int64_t max_chars = options.max_chars.value_or(0);
  if (!options.sample_path.empty()) {
    if (!fs::exists(options.sample_path)) {
      fail(ErrorKind::bad_input,
           "--pg19-sample-path {}: does not exist; leave it out to take a book of "
           "datasets/pg19 (tools/fetch_datasets pg19)",
           options.sample_path);
    }
    return {options.sample_path, options.sample_path, max_chars};
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
    return {"pg19/" + path->filename().string(), *path, max_chars};
  }
  std::vector<fs::path> books;
  if (fs::is_directory(folder)) {
    try {
      books = document_files(folder);
    } catch (const Error&) {  // no text in it: the message below says what to do
    }
  }
  if (books.empty())
    fail(ErrorKind::bad_input, "datasets/pg19 holds no book; run: tools/fetch_datasets pg19");
  if (options.mode == "full") return {"pg19", folder, max_chars};
  return {"pg19/" + books.front().filename().string(), books.front(), max_chars};
}

}  // namespace

Dataset find_dataset(const PplOptions& options, Protocol protocol) {
  if (options.dataset == "sample") return {"sample", source_path("datasets/sample")};
  if (options.dataset == "wikitext") return wikitext(protocol);
  if (options.dataset == "pg19") return pg19(options.pg19);
  if (!fs::exists(options.dataset)) {
    fail(ErrorKind::bad_input,
         "--dataset {}: there is no such file or folder, and it is not one of the names sample, wikitext, "
         "pg19",
         options.dataset);
  }
  document_files(options.dataset);  // its complaint about a folder without texts, before any work
  return {options.dataset, options.dataset};
}

DatasetTexts::DatasetTexts(const Dataset& dataset) : dataset_(dataset), reader_(dataset.path) {}

std::optional<Document> DatasetTexts::next() {
  if (dataset_.max_lines > 0 && lines_ >= dataset_.max_lines) return std::nullopt;
  std::optional<Document> document = reader_.next();
  if (!document) return document;
  std::string_view kept = document->text;
  if (dataset_.max_chars > 0) kept = first_chars(kept, dataset_.max_chars);
  if (dataset_.max_lines > 0) {
    kept = first_lines(kept, dataset_.max_lines - lines_);
    lines_ += static_cast<std::int64_t>(text_rows(kept).size());
  }
  document->text.resize(kept.size());
  sha_.update(std::as_bytes(std::span(document->text)));
  ++documents_;
  return document;
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
