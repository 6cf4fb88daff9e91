// DocumentReader: the texts of a dataset, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/enum_names.h"

namespace attn {

struct Document {
  std::string name;  // file name; for JSON lines with the line number: "set.jsonl:12"
  std::string
      text;  // valid UTF-8, exactly the file's bytes (line ends too); empty only where a JSON line says so
  std::string title{};  // for people, where one is known; DocumentReader knows none
};

// keep: the bytes as they are. lf: "\r\n" becomes "\n".
enum class LineEnds : unsigned char { keep, lf };
inline constexpr auto kLineEndsNames = name_table<LineEnds>({{LineEnds::keep, "keep"}, {LineEnds::lf, "lf"}});

struct ReadOptions {
  std::vector<std::string> documents;  // names, as DocumentSelection has them; empty: all
  LineEnds line_ends = LineEnds::keep;
};

// A FILE: JSON lines if it ends in .jsonl (each line an object with a string "text"), else one document of
// plain text; the same with .zst behind. A DIR: its files ending in .txt, .raw, .tokens, .jsonl, with or
// without .zst, in the order of their names; other files and folders inside are no part of the data set.
// Memory is bounded by the largest document, not by the data set.
class DocumentReader {
 public:
  // Error{bad_input}: the path does not exist, or the folder holds no such file.
  explicit DocumentReader(const std::filesystem::path& path, ReadOptions options = {});
  // These files, in this order; `source` names them in messages.
  DocumentReader(std::vector<std::filesystem::path> files, const std::string& source, ReadOptions options);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  // The next document that is asked for, or nothing at the end; what is not asked for is not parsed, and a
  // file of plain text not read. Error{bad_input} with file (and line): empty file, invalid UTF-8, a torn or
  // wrong JSON line, damaged .zst; at the end: a name that no document has.
  std::optional<Document> next();

  // What must be said of the documents so far: that they have "\r\n" line ends which were kept, so that their
  // ids are not those of the same text with "\n". Nothing if they have none.
  std::optional<std::string> line_end_warning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The text of one line of a .jsonl file. `where` names file and line, `ended` tells whether a line end was
// there: Error{bad_input} if it is no object with a string "text", or cut off.
std::string text_of_json_line(const std::string& line, bool ended, const std::string& where);

// "\r\n" to "\n", in place; how many there were.
std::int64_t unify_line_ends(std::string& text);

// The files a DocumentReader of this path will read, in order.
std::vector<std::filesystem::path> document_files(const std::filesystem::path& path);

}  // namespace attn
