// Files are written with system calls: the records of a benchmark must be on the disk when it says so.
#include "lib/results/writer.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/error.h"
#include "lib/results/system_b.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

[[noreturn]] void cannot_write(const fs::path& path, const std::string& why) {
  fail(ErrorKind::bad_input, "cannot write '{}' in the folder '{}': {}; choose another place with --out",
       path.filename().string(), folder_of(path).string(), why);
}

void create_folder_of(const fs::path& path) {
  std::error_code error;
  fs::create_directories(folder_of(path), error);
  if (error) cannot_write(path, error.message());
  if (fs::is_directory(path, error)) cannot_write(path, "there is a folder of that name");
}

// Opens for reading and appending, or replacing.
int open_or_fail(const fs::path& path, int flags) {
  const int file = open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(path, std::strerror(errno));
  return file;
}

void write_all(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path, std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // EINVAL: a pipe or a device, which has nothing to flush.
  if (fsync(file) != 0 && errno != EINVAL && errno != EROFS) cannot_write(path, std::strerror(errno));
}

bool is_json(std::string_view line) {
  try {
    parse_json(line, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Ends the file's last line: with a line end if the line is whole, else by moving it to FILE.torn.
void mend_last_line(int file, const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (text.empty() || text.back() == '\n') return;
  const std::size_t last_end = text.rfind('\n');
  const std::size_t begin = last_end == std::string::npos ? 0 : last_end + 1;
  const std::string_view line = std::string_view(text).substr(begin);
  if (is_json(line)) return write_all(file, "\n", path);
  const fs::path aside = path.string() + ".torn";
  const int torn = open_or_fail(aside, O_WRONLY | O_APPEND);
  write_all(torn, std::string(line) + "\n", aside);
  close(torn);
  if (ftruncate(file, static_cast<off_t>(begin)) != 0) cannot_write(path, std::strerror(errno));
}

fs::path temporary_name(const fs::path& path) { return path.string() + fmt::format(".{}.tmp", getpid()); }

}  // namespace

JsonlWriter::JsonlWriter(fs::path path) : path_(std::move(path)) {
  create_folder_of(path_);
  file_ = open_or_fail(path_, O_RDWR | O_APPEND);
  struct stat status {};
  if (fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) {
    try {
      mend_last_line(file_, path_);
    } catch (...) {
      close(file_);
      throw;
    }
  }
}

JsonlWriter::~JsonlWriter() {
  struct stat status {};
  // An empty file would read as a run without results.
  if (fstat(file_, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0) unlink(path_.c_str());
  close(file_);
}

void JsonlWriter::append(const ResultRecord& record) {
  // One write of one whole line: with O_APPEND, lines of two programs do not mix.
  write_all(file_, to_json(to_fields(record)) + "\n", path_);
}

void write_text(const fs::path& path, std::string_view text) {
  create_folder_of(path);
  const fs::path temporary = temporary_name(path);
  const int file = open_or_fail(temporary, O_WRONLY | O_TRUNC);
  try {
    write_all(file, text, path);
  } catch (...) {
    close(file);
    unlink(temporary.c_str());
    throw;
  }
  close(file);
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    cannot_write(path, why);
  }
}

void write_document(const fs::path& path, std::span<const ResultRecord> records) {
  std::string text = "{\"results\": [";
  for (const auto& record : records) {
    text += &record == records.data() ? "\n" : ",\n";
    text += to_json(to_fields(record));
  }
  text += "\n],\n\"summary\": " + to_json(document_summary(records)) + "}\n";
  write_text(path, text);
}

ResultWriter::ResultWriter(const fs::path& out, std::string_view file_name) : path_(out) {
  std::error_code error;
  if (out.extension() == ".json" && !fs::is_directory(out, error)) {
    create_folder_of(out);
    const fs::path temporary = temporary_name(out);
    close(open_or_fail(temporary, O_WRONLY));
    unlink(temporary.c_str());
    return;
  }
  if (out.extension() != ".jsonl" || fs::is_directory(out, error)) path_ = out / file_name;
  lines_.emplace(path_);
}

void ResultWriter::append(const ResultRecord& record) {
  if (lines_) return lines_->append(record);
  document_.push_back(record);
  write_document(path_, document_);
}

}  // namespace attn
