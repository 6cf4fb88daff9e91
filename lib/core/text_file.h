// TextFile: the bytes of a plain or zstd-compressed file, front to back in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace attn {

// A name that ends in .zst is decompressed; any other is read as it is. Nothing is changed in the bytes.
class TextFile {
 public:
  // Error{bad_input}: the file cannot be opened or is a folder.
  explicit TextFile(const std::filesystem::path& path);
  ~TextFile();
  TextFile(TextFile&&) noexcept;
  TextFile& operator=(TextFile&&) noexcept;

  // Fills `buffer` from its start and returns how many bytes; fewer than its size only at the end, 0 after
  // it. Error{bad_input}: read error, damaged or truncated .zst.
  std::size_t read(std::span<char> buffer);

  // One line without its '\n' (a '\r' before it stays); false at the end of the file. `ended` (if given)
  // tells whether a '\n' was there: the last line of a file may lack it. Error{bad_input}: as read(), and a
  // line longer than `max_bytes`.
  bool read_line(std::string& line, bool* ended = nullptr, std::size_t max_bytes = std::size_t{1} << 30);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole file. Error{bad_input}: as TextFile, and more than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{1} << 32);

}  // namespace attn
