// The walk over the files of a dataset, and over the documents in a file.
#include "lib/text/document.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "lib/text/document_selection.h"
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

std::int64_t count_crlf(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] == '\n') ++count;
  }
  return count;
}

}  // namespace

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

std::int64_t unify_line_ends(std::string& text) {
  const std::int64_t count = count_crlf(text);
  if (count == 0) return 0;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    text[kept++] = text[at];
  }
  text.resize(kept);
  return count;
}

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
  std::string source;  // for messages
  LineEnds line_ends = LineEnds::keep;
  DocumentSelection selection;
  std::size_t next_file = 0;
  std::optional<TextFile> lines;  // the .jsonl file that is open
  std::int64_t line_number = 0;
  std::string line;
  std::int64_t crlf = 0;   // line ends that were kept as "\r\n"
  std::string crlf_first;  // the first document that has one

  Document finished(std::string name, std::string text) {
    if (line_ends == LineEnds::lf) {
      unify_line_ends(text);
    } else if (const std::int64_t count = count_crlf(text); count > 0) {
      if (crlf == 0) crlf_first = name;
      crlf += count;
    }
    return {std::move(name), std::move(text)};
  }

  // The next line of the open file that is asked for; nothing at its end.
  std::optional<Document> next_line() {
    const fs::path& path = files[next_file - 1];
    bool ended = false;
    while (!selection.exhausted() && lines->read_line(line, &ended)) {
      const std::string number = fmt::format(":{}", ++line_number);
      std::string name = path.filename().string() + number;
      if (!selection.takes(name)) continue;
      return finished(std::move(name), text_of_json_line(line, ended, path.string() + number));
    }
    if (line_number == 0 && !selection.exhausted())
      fail(ErrorKind::bad_input, "{}: the file is empty", path.string());
    lines.reset();
    return std::nullopt;
  }
};

DocumentReader::DocumentReader(const fs::path& path, ReadOptions options)
    : DocumentReader(document_files(path), path.string(), std::move(options)) {}

DocumentReader::DocumentReader(std::vector<fs::path> files, const std::string& source, ReadOptions options)
    : state_(std::make_unique<State>()) {
  state_->files = std::move(files);
  state_->source = source;
  state_->line_ends = options.line_ends;
  state_->selection = DocumentSelection(std::move(options.documents));
}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

std::optional<Document> DocumentReader::next() {
  State& s = *state_;
  while (true) {
    if (s.lines) {
      if (auto document = s.next_line()) return document;
    }
    if (s.next_file == s.files.size() || s.selection.exhausted()) {
      s.selection.require_all(s.source);
      return std::nullopt;
    }
    const fs::path& path = s.files[s.next_file++];
    if (kind_extension(path) == ".jsonl") {
      s.lines.emplace(path);
      s.line_number = 0;
      continue;
    }
    if (!s.selection.takes(path.filename().string())) continue;
    std::string text = read_text_file(path);
    if (text.empty()) fail(ErrorKind::bad_input, "{}: the file is empty", path.string());
    validate_utf8(text, path.string());
    return s.finished(path.filename().string(), std::move(text));
  }
}

std::optional<std::string> DocumentReader::line_end_warning() const {
  const State& s = *state_;
  if (s.crlf == 0) return std::nullopt;
  return fmt::format(
      "{}: {} line ends are CRLF (the first in {}) and stay so: ids and perplexity are not those of the same "
      "text "
      "with LF",
      s.source, s.crlf, s.crlf_first);
}

}  // namespace attn
