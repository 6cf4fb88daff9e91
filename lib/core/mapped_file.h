// MappedFile: a read-only file in memory, its pages read when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace attn {

// Throws Error{bad_input} when the file cannot be opened, is not a regular file, or cannot be mapped. An
// empty file gives an empty span. The bytes live as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace attn
