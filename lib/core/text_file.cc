// TextFile: one buffer of file bytes, and for .zst one zstd stream that empties it.
#include "lib/core/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <zstd.h>

#include "lib/core/error.h"

namespace attn {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

}  // namespace

struct TextFile::State {
  std::filesystem::path path;
  std::unique_ptr<std::FILE, CloseFile> file;
  std::unique_ptr<ZSTD_DStream, FreeStream> stream;  // null for a plain file
  std::vector<char> packed;                          // bytes as they lie in a .zst file
  ZSTD_inBuffer input{nullptr, 0, 0};                // the part of `packed` not yet decompressed
  bool frame_open = false;                           // the last frame has begun and has not ended
  std::vector<char> line_buffer;                     // read ahead by read_line
  std::size_t line_begin = 0, line_end = 0;

  std::size_t read_plain(char* data, std::size_t size) {
    const std::size_t got = std::fread(data, 1, size, file.get());
    if (got < size && std::ferror(file.get())) {
      fail(ErrorKind::bad_input, "{}: cannot be read: {}", path.string(), std::strerror(errno));
    }
    return got;
  }

  std::size_t read_zstd(char* data, std::size_t size) {
    ZSTD_outBuffer output{data, size, 0};
    while (output.pos < output.size) {
      const bool starved = input.pos == input.size;
      if (starved) {
        input = {packed.data(), read_plain(packed.data(), packed.size()), 0};
        if (input.size == 0 && !frame_open) break;
      }
      const std::size_t before = output.pos;
      const std::size_t result = ZSTD_decompressStream(stream.get(), &output, &input);
      if (ZSTD_isError(result)) {
        fail(ErrorKind::bad_input, "{}: is no sound .zst file: {}", path.string(), ZSTD_getErrorName(result));
      }
      frame_open = result != 0;
      if (input.size == 0 && frame_open && output.pos == before) {
        fail(ErrorKind::bad_input, "{}: the .zst file ends too early: it is truncated; fetch it again",
             path.string());
      }
    }
    return output.pos;
  }
};

TextFile::TextFile(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::bad_input, "{}: is a folder where a file is needed", path.string());
  }
  state_->file.reset(std::fopen(path.c_str(), "rb"));
  if (!state_->file) {
    fail(ErrorKind::bad_input, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  }
  if (path.extension() == ".zst") {
    state_->stream.reset(ZSTD_createDStream());
    if (!state_->stream) fail(ErrorKind::out_of_memory, "{}: no memory to decompress it", path.string());
    state_->packed.resize(ZSTD_DStreamInSize());
  }
}

TextFile::~TextFile() = default;
TextFile::TextFile(TextFile&&) noexcept = default;
TextFile& TextFile::operator=(TextFile&&) noexcept = default;

std::size_t TextFile::read(std::span<char> buffer) {
  State& s = *state_;
  const std::size_t ahead = std::min(buffer.size(), s.line_end - s.line_begin);
  std::copy_n(s.line_buffer.data() + s.line_begin, ahead, buffer.data());
  s.line_begin += ahead;
  char* data = buffer.data() + ahead;
  const std::size_t size = buffer.size() - ahead;
  return ahead + (s.stream ? s.read_zstd(data, size) : s.read_plain(data, size));
}

bool TextFile::read_line(std::string& line, bool* ended, std::size_t max_bytes) {
  State& s = *state_;
  line.clear();
  if (ended) *ended = false;
  bool any = false;
  while (true) {
    if (s.line_begin == s.line_end) {
      s.line_begin = s.line_end = 0;
      s.line_buffer.resize(std::size_t{1} << 16);
      s.line_end = read(s.line_buffer);
      if (s.line_end == 0) return any;
    }
    any = true;
    const char* begin = s.line_buffer.data() + s.line_begin;
    const std::size_t size = s.line_end - s.line_begin;
    const void* found = std::memchr(begin, '\n', size);
    const std::size_t length =
        found ? static_cast<std::size_t>(static_cast<const char*>(found) - begin) : size;
    if (line.size() + length > max_bytes) {
      fail(ErrorKind::bad_input, "{}: has a line of more than {} bytes", s.path.string(), max_bytes);
    }
    line.append(begin, length);
    s.line_begin += length;
    if (found) {
      ++s.line_begin;
      if (ended) *ended = true;
      return true;
    }
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  TextFile file(path);
  std::string text;
  std::size_t size = 0;
  std::error_code no_size;
  const std::uintmax_t hint = std::filesystem::file_size(path, no_size);
  std::size_t step =
      no_size ? std::size_t{1} << 16 : static_cast<std::size_t>(std::min<std::uintmax_t>(hint + 1, 1 << 24));
  while (true) {
    text.resize(size + step);
    const std::size_t got = file.read({text.data() + size, step});
    size += got;
    if (size > max_bytes) {
      fail(ErrorKind::bad_input, "{}: is larger than {} bytes, more than is read at once", path.string(),
           max_bytes);
    }
    if (got < step) break;
    step = std::max(step, size / 2);
  }
  text.resize(size);
  return text;
}

}  // namespace attn
