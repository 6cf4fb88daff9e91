// DocumentReader: the texts of a dataset, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn {

struct Document {
  std::string name;  // file name; for JSON lines with the line number: "set.jsonl:12"
  std::string
      text;  // valid UTF-8, exactly the file's bytes (line ends too); empty only where a JSON line says so
};

// A FILE: JSON lines if it ends in .jsonl (each line an object with a string "text"), else one document of
// plain text; the same with .zst behind. A DIR: its files ending in .txt, .raw, .tokens, .jsonl, with or
// without .zst, in the order of their names; other files and folders inside are no part of the data set.
// Memory is bounded by the largest document, not by the data set.
class DocumentReader {
 public:
  // Error{bad_input}: the path does not exist, or the folder holds no such file.
  explicit DocumentReader(const std::filesystem::path& path);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  // The next document, or nothing at the end. Error{bad_input} with file (and line): empty file, invalid
  // UTF-8, a torn or wrong JSON line, damaged .zst.
  std::optional<Document> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The files a DocumentReader of this path will read, in order.
std::vector<std::filesystem::path> document_files(const std::filesystem::path& path);

}  // namespace attn
