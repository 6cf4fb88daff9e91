// The CPU as a Device: ordinary memory, work done at once, the steady clock.
#pragma once

#include "lib/backend/device.h"

namespace attn {

class CpuDevice : public Device {
 public:
  DeviceInfo info() const override;
  bool host_memory() const override { return true; }

  void upload(void* target, const void* source, std::size_t bytes) override;
  void download(void* target, const void* source, std::size_t bytes) override;
  void download_later(void* target, const void* source, std::size_t bytes) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  void fill_zero(void* target, std::size_t bytes) override;
  void synchronize() override {}
  void read(const void* source, std::size_t bytes) override;
  SensorAccess sensors() override;

  std::unique_ptr<Stopwatch> make_stopwatch() override;
  std::unique_ptr<Graph> capture(std::function<void()> body) override;

 protected:
  // Null when more is asked than the machine can still give: Linux promises memory it does not have and ends
  // the program when the promise falls due.
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* data, std::size_t bytes) override;
};

}  // namespace attn
