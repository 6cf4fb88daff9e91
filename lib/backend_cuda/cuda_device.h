// CudaDevice: one GPU with one stream, its memory from a stream-ordered pool.
#pragma once

#include <cuda_runtime_api.h>

#include "lib/backend/device.h"
#include "lib/backend_cuda/pinned_staging.h"

namespace attn {

// Opening it makes the GPU the calling thread's current one; all calls come from that thread.
class CudaDevice : public Device {
 public:
  // Throws Error{device} where there is no driver or no such GPU, or the GPU is older than compute
  // capability 8.0.
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  DeviceInfo info() const override;
  void upload(void* target, const void* source, std::size_t bytes) override;
  void download(void* target, const void* source, std::size_t bytes) override;
  void download_later(void* target, const void* source, std::size_t bytes) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  void fill_zero(void* target, std::size_t bytes) override;
  void synchronize() override;
  void upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill) override;
  bool fill_random(const TensorView& matrix, const RandomFill& fill) override;
  void read(const void* source, std::size_t bytes) override;
  SensorAccess sensors() override;
  std::unique_ptr<Stopwatch> make_stopwatch() override;
  std::unique_ptr<Graph> capture(std::function<void()> body) override;
  bool records() const override { return true; }

  cudaStream_t stream() const { return stream_; }
  int sm_count() const { return properties_.multiProcessorCount; }
  int compute_capability() const { return properties_.major * 10 + properties_.minor; }
  std::size_t block_shared_bytes() const { return properties_.sharedMemPerBlockOptin; }
  PinnedStaging& staging() { return *staging_; }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* data, std::size_t bytes) override;

 private:
  int index_;
  cudaDeviceProp properties_{};
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<PinnedStaging> staging_;
};

// GPUs that the driver shows; 0 also where there is no driver.
int cuda_device_count();

}  // namespace attn
