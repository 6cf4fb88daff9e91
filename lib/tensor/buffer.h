// Buffer: bytes of a device's memory, given back to their allocator when the owner goes.
#pragma once

#include <cstddef>
#include <functional>

namespace attn {

// Move-only. Made by Device::allocate; must not outlive its device.
class Buffer {
 public:
  using Release = std::function<void(void* data, std::size_t bytes)>;

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Release release);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_;
};

}  // namespace attn
