// Writing records so that nothing measured is lost: one flushed line a case, or one document replaced
// atomically.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/results/record.h"

namespace attn {

// Appends one JSON object a line to a .jsonl file. The constructor creates missing folders and throws
// Error{bad_input}, naming the folder, if it cannot write there: before the work starts. A torn last line of
// an existing file moves to FILE.torn, so that every line of the file stays a whole record.
class JsonlWriter {
 public:
  explicit JsonlWriter(std::filesystem::path path);
  ~JsonlWriter();
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;

  // On the disk (fsync) when it returns. Throws Error{internal} for a non-finite number, Error{bad_input} if
  // the disk is full.
  void append(const ResultRecord& record);

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

// {"results": [...], "summary": {...}} in system B's shape, by a temporary file and a rename.
void write_document(const std::filesystem::path& path, std::span<const ResultRecord> records);

// A text file by a temporary file and a rename.
void write_text(const std::filesystem::path& path, std::string_view text);

// What --out means: FILE.json: one document, replaced after every record; FILE.jsonl: appended to; anything
// else is a folder: `file_name` in it is appended to. The constructor checks as JsonlWriter's does.
class ResultWriter {
 public:
  ResultWriter(const std::filesystem::path& out, std::string_view file_name);
  void append(const ResultRecord& record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<JsonlWriter> lines_;    // of the .jsonl form
  std::vector<ResultRecord> document_;  // of the .json form: all records so far
};

}  // namespace attn
