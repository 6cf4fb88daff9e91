// Ownership of device memory.
#include "lib/tensor/buffer.h"

#include <utility>

namespace attn {

Buffer::Buffer(void* data, std::size_t bytes, Release release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {}

Buffer::~Buffer() {
  if (data_ != nullptr && release_) release_(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

}  // namespace attn
