// HostDevice: the least a Device can be, to test what is written to memory. With `remote` it claims memory
// that the host may not touch, so that everything must pass through upload().
#pragma once

#include <cstdlib>
#include <cstring>

#include "lib/backend/device.h"
#include "lib/core/error.h"

namespace attn::test {

class HostDevice : public Device {
 public:
  explicit HostDevice(bool remote = false) : remote_(remote) {}
  DeviceInfo info() const override { return {"test", "memory for tests", 0, 1, ""}; }
  bool host_memory() const override { return !remote_; }
  void upload(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
    uploaded_bytes += bytes;
  }
  void download(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void download_later(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void copy(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void fill_zero(void* target, std::size_t bytes) override { std::memset(target, 0, bytes); }
  void synchronize() override {}
  std::unique_ptr<Stopwatch> make_stopwatch() override { fail(ErrorKind::internal, "no stopwatch in tests"); }
  std::unique_ptr<Graph> capture(std::function<void()>) override {
    fail(ErrorKind::internal, "no graph in tests");
  }

  std::size_t uploaded_bytes = 0;

 protected:
  void* raw_allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (data != nullptr) std::memset(data, 0xff, bytes);  // a NaN in every place that stays unwritten
    return data;
  }
  void raw_release(void* data, std::size_t) override { std::free(data); }

 private:
  bool remote_;
};

}  // namespace attn::test
