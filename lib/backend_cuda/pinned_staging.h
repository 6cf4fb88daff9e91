// PinnedStaging: copies between the GPU and ordinary host memory by way of page-locked buffers.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>

#include <cuda_runtime_api.h>

#include "lib/backend/device.h"

namespace attn {

// Everything happens in the order of `stream`. Page-locked memory is taken on first use.
class PinnedStaging {
 public:
  explicit PinnedStaging(cudaStream_t stream) : stream_(stream) {}
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;

  void upload(void* target, const void* source, std::size_t bytes);  // returns when `source` may be changed
                                                                     // and the bytes are on the GPU
  // Up to kFilledBytes, which `fill` writes to a page-locked place; returns when they are on their way.
  void upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill);
  void download(void* target, const void* source, std::size_t bytes);  // returns when `target` is written
  // Returns at once while there are free slots; `target` is written by a later finish_*(). More than all
  // slots hold: as download().
  void download_later(void* target, const void* source, std::size_t bytes);

  // Writes the targets of all downloads whose bytes have arrived by now.
  void finish_arrived();
  // Waits for the stream, then writes all targets.
  void finish_all();

 private:
  static constexpr std::size_t kBufferBytes = kFilledBytes;
  static constexpr std::size_t kBuffers = 2;
  static constexpr std::size_t kSlotBytes = 4096;
  static constexpr std::size_t kSlots = 1024;

  struct Pending {
    void* target;
    std::size_t bytes, slot;
  };

  void prepare_buffers();
  void prepare_slots();
  void finish_oldest();
  void* slot(std::size_t index) const;

  cudaStream_t stream_;
  void* buffers_ = nullptr;  // kBuffers of kBufferBytes
  std::array<cudaEvent_t, kBuffers> buffer_free_{};
  void* slots_ = nullptr;  // kSlots of kSlotBytes
  std::array<cudaEvent_t, kSlots> arrived_{};
  std::size_t next_buffer_ = 0;  // of upload_filled()
  std::size_t next_slot_ = 0;
  std::deque<Pending> pending_;  // oldest first
};

}  // namespace attn
