// The walk over the files of a dataset, and over the documents in a file.
#include "lib/text/document.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "lib/text/tokenizer.h"

namespace attn {

namespace {

namespace fs = std::filesystem;

// The extension that tells the kind of a file, the one before .zst if it is compressed.
std::string kind_extension(const fs::path& path) {
  return path.extension() == ".zst" ? path.stem().extension().string() : path.extension().string();
}

bool is_dataset_file(const fs::path& path) {
  static constexpr std::array<std::string_view, 4> kExtensions = {".txt", ".raw", ".tokens", ".jsonl"};
  return std::find(kExtensions.begin(), kExtensions.end(), kind_extension(path)) != kExtensions.end();
}

std::string text_of_json_line(const std::string& line, bool ended, const std::string& where) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::bad_input, "{}: is no valid JSON{}: {}", where,
         ended ? "" : " (the file's last line, without a line end: it may be cut off)", e.what());
  }
  const auto text = object.is_object() ? object.find("text") : object.end();
  if (!object.is_object() || text == object.end() || !text->is_string()) {
    fail(ErrorKind::bad_input, "{}: is not an object with a string \"text\"", where);
  }
  return std::move(text->get_ref<std::string&>());
}

}  // namespace

std::vector<fs::path> document_files(const fs::path& path) {
  if (!fs::exists(path)) fail(ErrorKind::bad_input, "{}: does not exist", path.string());
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && is_dataset_file(entry.path())) files.push_back(entry.path());
  }
  if (files.empty()) {
    fail(ErrorKind::bad_input,
         "{}: holds no text: looked for *.txt, *.raw, *.tokens, *.jsonl, with or without .zst",
         path.string());
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return a.filename().string() < b.filename().string();
  });
  return files;
}

struct DocumentReader::State {
  std::vector<fs::path> files;
  std::size_t next_file = 0;
  std::optional<TextFile> lines;  // the .jsonl file that is open
  std::int64_t line_number = 0;
  std::string line;
};

DocumentReader::DocumentReader(const fs::path& path) : state_(std::make_unique<State>()) {
  state_->files = document_files(path);
}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

std::optional<Document> DocumentReader::next() {
  State& s = *state_;
  while (true) {
    if (s.lines) {
      const fs::path& path = s.files[s.next_file - 1];
      bool ended = false;
      if (s.lines->read_line(s.line, &ended)) {
        ++s.line_number;
        const std::string number = ":" + std::to_string(s.line_number);
        return Document{path.filename().string() + number,
                        text_of_json_line(s.line, ended, path.string() + number)};
      }
      if (s.line_number == 0) fail(ErrorKind::bad_input, "{}: the file is empty", path.string());
      s.lines.reset();
    }
    if (s.next_file == s.files.size()) return std::nullopt;
    const fs::path& path = s.files[s.next_file++];
    if (kind_extension(path) == ".jsonl") {
      s.lines.emplace(path);
      s.line_number = 0;
      continue;
    }
    Document document{path.filename().string(), read_text_file(path)};
    if (document.text.empty()) fail(ErrorKind::bad_input, "{}: the file is empty", path.string());
    validate_utf8(document.text, path.string());
    return document;
  }
}

}  // namespace attn
