// Lines, documents and folders of results.
#include "lib/results/reader.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "lib/core/error.h"
#include "lib/results/system_b.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::bad_input, "{}: cannot be read", path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// False if the object holds no result of ours or of system B.
bool add_records(const Value& value, const std::string& source, std::vector<ResultRecord>& records) {
  const Fields* object = value.fields();
  if (!object) return false;
  if (auto theirs = system_b_records(*object, source)) {
    for (auto& record : *theirs) records.push_back(std::move(record));
    return true;
  }
  if (!object->find("schema")) return false;
  records.push_back(record_from(*object, source));
  return true;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

void read_lines_of(const fs::path& path, ReadResults& results) {
  const std::string text = read_file(path);
  const std::string_view all = text;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = all.substr(begin, end - begin);
    begin = end + 1;
    const std::string source = fmt::format("{}:{}", path.string(), ++line_number);
    if (is_blank(line)) continue;
    Value value;
    try {
      value = parse_json(line, source);
    } catch (const Error& error) {
      const bool is_last = begin >= all.size() || is_blank(all.substr(begin));
      if (!is_last) throw;
      results.warnings.push_back(fmt::format("{}: the last line is torn and was skipped", source));
      continue;
    }
    if (!add_records(value, source, results.records)) {
      fail(ErrorKind::bad_input, "{}: not a result record (schema \"{}\")", source, kResultSchema);
    }
  }
}

// False if the document holds no results.
bool read_document(const fs::path& path, ReadResults& results) {
  const Value document = parse_json(read_file(path), path.string());
  if (add_records(document, path.string(), results.records)) return true;
  const Value::Array* array = document.array();
  if (const Fields* object = document.fields()) {
    if (const Value* list = object->find("results")) array = list->array();
  }
  if (!array) return false;
  std::size_t index = 0;
  for (const Value& value : *array) {
    const std::string source = fmt::format("{}[{}]", path.string(), index++);
    if (add_records(value, source, results.records)) continue;
    if (index == 1) return false;
    fail(ErrorKind::bad_input, "{}: not a result record", source);
  }
  return true;
}

bool read_one_file(const fs::path& path, ReadResults& results) {
  const std::size_t before = results.records.size();
  if (path.extension() == ".jsonl") {
    read_lines_of(path, results);
    return results.records.size() > before;
  }
  return read_document(path, results) && results.records.size() > before;
}

std::vector<fs::path> result_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    std::error_code error;
    if (entry.is_regular_file(error) && (extension == ".json" || extension == ".jsonl"))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

ReadResults read_results(std::span<const fs::path> paths) {
  ReadResults results;
  for (const auto& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error))
      fail(ErrorKind::bad_input, "{}: there is no such file or folder", path.string());
    if (!fs::is_directory(path, error)) {
      const std::size_t warnings = results.warnings.size();
      if (!read_one_file(path, results) && results.warnings.size() == warnings) {
        fail(ErrorKind::bad_input, "{}: holds no results", path.string());
      }
      continue;
    }
    const auto files = result_files_in(path);
    if (files.empty())
      results.warnings.push_back(fmt::format("{}: holds no .json or .jsonl file", path.string()));
    for (const auto& file : files) {
      const std::size_t warnings = results.warnings.size();
      if (!read_one_file(file, results) && results.warnings.size() == warnings) {
        results.warnings.push_back(fmt::format("{}: holds no results", file.string()));
      }
    }
  }
  std::set<std::string> seen;
  const auto met_before = [&](const ResultRecord& record) {
    return !seen.insert(to_json(to_fields(record))).second;
  };
  results.records.erase(std::remove_if(results.records.begin(), results.records.end(), met_before),
                        results.records.end());
  return results;
}

}  // namespace attn
