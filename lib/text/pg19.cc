// PG-19's folder, its metadata.csv, and its words.
#include "lib/text/pg19.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/text/tokenizer.h"
#include "lib/text/unicode.h"
#include "lib/text/utf8.h"

namespace attn {

namespace {

namespace fs = std::filesystem;

std::optional<std::int32_t> whole_number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// One row of a CSV file after another, RFC 4180; line ends are "\n" or "\r\n".
class CsvRows {
 public:
  CsvRows(std::string_view csv, std::string_view source) : rest_(csv), source_(source) {}

  std::int64_t line() const { return line_; }  // of the row that was read last
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    line_ += 1 + lines_inside_;
    lines_inside_ = 0;
    if (rest_.empty()) return false;
    while (true) {
      fields.push_back(rest_.starts_with('"') ? quoted() : plain());
      if (rest_.empty()) return true;
      const char separator = rest_[0];
      rest_.remove_prefix(1);
      if (separator == '\n') return true;  // else a comma, and a field follows, be it an empty one
    }
  }

 private:
  std::string plain() {
    const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    std::string field(rest_.substr(0, end));
    if (field.ends_with('\r') && (end == rest_.size() || rest_[end] == '\n')) field.pop_back();
    rest_.remove_prefix(end);
    return field;
  }

  std::string quoted() {
    std::string field;
    rest_.remove_prefix(1);
    while (true) {
      const std::size_t quote = rest_.find('"');
      if (quote == std::string_view::npos)
        fail(ErrorKind::bad_input, "{}:{}: a quote is opened and not closed", source_, line_);
      field += rest_.substr(0, quote);
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) break;
      field += '"';
      rest_.remove_prefix(1);
    }
    lines_inside_ += std::count(field.begin(), field.end(), '\n');
    if (rest_.starts_with('\r')) rest_.remove_prefix(1);
    if (!rest_.empty() && rest_[0] != ',' && rest_[0] != '\n')
      fail(ErrorKind::bad_input, "{}:{}: text behind a closing quote", source_, line_);
    return field;
  }

  std::string_view rest_, source_;
  std::int64_t line_ = 0, lines_inside_ = 0;
};

}  // namespace

Pg19Books find_pg19_books(const fs::path& folder, Pg19Split split) {
  const std::string_view name = kPg19SplitNames.name(split);
  if (!fs::is_directory(folder)) fail(ErrorKind::bad_input, "{}: is no folder of books", folder.string());
  const fs::path inner = folder / name;
  const fs::path& place = fs::is_directory(inner) ? inner : folder;
  Pg19Books books;
  for (const Pg19File& file : facts_of(split).files) {
    const fs::path plain = place / (std::to_string(file.book) + ".txt");
    const fs::path packed = plain.string() + ".zst";
    if (fs::is_regular_file(plain)) {
      books.files.push_back(plain);
    } else if (fs::is_regular_file(packed)) {
      books.files.push_back(packed);
    } else {
      books.missing.push_back(file.book);
    }
  }
  if (books.files.empty()) {
    fail(ErrorKind::bad_input, "{}: has none of the {} books of PG-19's {} split (ID.txt or ID.txt.zst)",
         place.string(), facts_of(split).files.size(), name);
  }
  return books;
}

std::optional<std::int64_t> published_words(Pg19Split split, std::span<const Pg19File> read) {
  const Pg19SplitFacts& facts = facts_of(split);
  if (read.size() != facts.files.size()) return std::nullopt;
  std::set<std::pair<std::int32_t, std::int32_t>> left;
  for (const Pg19File& file : facts.files) left.emplace(file.book, file.bytes);
  for (const Pg19File& file : read) {
    if (left.erase({file.book, file.bytes}) == 0) return std::nullopt;
  }
  return facts.words;
}

std::optional<std::int32_t> pg19_book_of(std::string_view file_name) {
  if (file_name.ends_with(".zst")) file_name.remove_suffix(4);
  if (!file_name.ends_with(".txt")) return std::nullopt;
  return whole_number(file_name.substr(0, file_name.size() - 4));
}

std::vector<Pg19Title> parse_pg19_metadata(std::string_view csv, std::string_view source) {
  validate_utf8(csv, source);
  CsvRows rows(csv, source);
  std::vector<Pg19Title> titles;
  std::set<std::int32_t> books;
  std::vector<std::string> fields;
  while (rows.next(fields)) {
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    if (fields.size() != 4) {
      fail(ErrorKind::bad_input, "{}:{}: has {} fields where book, title, year and address are expected",
           source, rows.line(), fields.size());
    }
    const auto book = whole_number(fields[0]);
    if (!book && rows.line() == 1) continue;
    const auto year = whole_number(fields[2]);
    if (!book || (!year && !fields[2].empty())) {
      fail(ErrorKind::bad_input, "{}:{}: '{}' is not {}", source, rows.line(), book ? fields[2] : fields[0],
           book ? "a year" : "the number of a book");
    }
    if (!books.insert(*book).second)
      fail(ErrorKind::bad_input, "{}:{}: the book {} is there twice", source, rows.line(), *book);
    titles.push_back({*book, std::move(fields[1]), year, std::move(fields[3])});
  }
  return titles;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const bool space = is_python_space(c.code_point);
    if (!space && !inside) ++words;
    inside = !space;
    at += c.bytes;
  }
  return words;
}

}  // namespace attn
