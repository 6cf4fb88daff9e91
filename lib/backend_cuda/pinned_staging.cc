// Copies by way of page-locked buffers: a large one in pieces, so that the host's copy of one piece runs
// beside the bus transfer of another.
#include "lib/backend_cuda/pinned_staging.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"

namespace attn {

namespace {

// Up to here the driver's own staging is as quick.
constexpr std::size_t kSmallBytes = 64 << 10;

void copy_on_host(void* target, const void* source, std::size_t bytes) {
  constexpr std::size_t kPiece = 1U << 20;
  const auto pieces = static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece);
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kPiece;
    std::memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin,
                std::min(kPiece, bytes - begin));
  }
}

}  // namespace

PinnedStaging::~PinnedStaging() {
  for (const cudaEvent_t event : buffer_free_)
    if (event != nullptr) cudaEventDestroy(event);
  for (const cudaEvent_t event : arrived_)
    if (event != nullptr) cudaEventDestroy(event);
  cudaFreeHost(buffers_);
  cudaFreeHost(slots_);
}

void PinnedStaging::prepare_buffers() {
  if (buffers_ != nullptr) return;
  for (cudaEvent_t& event : buffer_free_) ATTN_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ATTN_CUDA(cudaMallocHost(&buffers_, kBuffers * kBufferBytes));
}

void PinnedStaging::prepare_slots() {
  if (slots_ != nullptr) return;
  for (cudaEvent_t& event : arrived_) ATTN_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ATTN_CUDA(cudaMallocHost(&slots_, kSlots * kSlotBytes));
}

void* PinnedStaging::slot(std::size_t index) const { return static_cast<char*>(slots_) + index * kSlotBytes; }

void PinnedStaging::upload(void* target, const void* source, std::size_t bytes) {
  if (bytes <= kSmallBytes) {
    ATTN_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream_));
  } else {
    prepare_buffers();
    std::size_t piece = 0;
    for (std::size_t done = 0; done < bytes; done += kBufferBytes, piece = (piece + 1) % kBuffers) {
      const std::size_t size = std::min(kBufferBytes, bytes - done);
      void* buffer = static_cast<char*>(buffers_) + piece * kBufferBytes;
      ATTN_CUDA(cudaEventSynchronize(buffer_free_[piece]));
      copy_on_host(buffer, static_cast<const char*>(source) + done, size);
      ATTN_CUDA(
          cudaMemcpyAsync(static_cast<char*>(target) + done, buffer, size, cudaMemcpyHostToDevice, stream_));
      ATTN_CUDA(cudaEventRecord(buffer_free_[piece], stream_));
    }
  }
  ATTN_CUDA(cudaStreamSynchronize(stream_));
  finish_arrived();
}

void PinnedStaging::upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill) {
  if (bytes > kBufferBytes) fail(ErrorKind::internal, "{} bytes do not fit a page-locked buffer", bytes);
  prepare_buffers();
  const std::size_t index = next_buffer_;
  next_buffer_ = (next_buffer_ + 1) % kBuffers;
  void* buffer = static_cast<char*>(buffers_) + index * kBufferBytes;
  ATTN_CUDA(cudaEventSynchronize(buffer_free_[index]));
  fill(buffer);
  ATTN_CUDA(cudaMemcpyAsync(target, buffer, bytes, cudaMemcpyHostToDevice, stream_));
  ATTN_CUDA(cudaEventRecord(buffer_free_[index], stream_));
}

void PinnedStaging::download(void* target, const void* source, std::size_t bytes) {
  if (bytes <= kSmallBytes) {
    ATTN_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream_));
  } else {
    prepare_buffers();
    const auto piece_of = [](std::size_t done) { return done / kBufferBytes % kBuffers; };
    const auto issue = [&](std::size_t done) {
      if (done >= bytes) return;
      void* buffer = static_cast<char*>(buffers_) + piece_of(done) * kBufferBytes;
      const std::size_t size = std::min(kBufferBytes, bytes - done);
      ATTN_CUDA(cudaMemcpyAsync(buffer, static_cast<const char*>(source) + done, size, cudaMemcpyDeviceToHost,
                                stream_));
      ATTN_CUDA(cudaEventRecord(buffer_free_[piece_of(done)], stream_));
    };
    for (std::size_t ahead = 0; ahead < kBuffers; ++ahead) issue(ahead * kBufferBytes);
    for (std::size_t done = 0; done < bytes; done += kBufferBytes) {
      const std::size_t piece = piece_of(done);
      ATTN_CUDA(cudaEventSynchronize(buffer_free_[piece]));
      copy_on_host(static_cast<char*>(target) + done, static_cast<char*>(buffers_) + piece * kBufferBytes,
                   std::min(kBufferBytes, bytes - done));
      issue(done + kBuffers * kBufferBytes);
    }
  }
  ATTN_CUDA(cudaStreamSynchronize(stream_));
  finish_arrived();
}

void PinnedStaging::download_later(void* target, const void* source, std::size_t bytes) {
  if (bytes > kSlots * kSlotBytes) {
    download(target, source, bytes);
    return;
  }
  prepare_slots();
  for (std::size_t done = 0; done < bytes; done += kSlotBytes) {
    const std::size_t size = std::min(kSlotBytes, bytes - done);
    if (pending_.size() == kSlots) finish_oldest();
    const std::size_t index = next_slot_;
    next_slot_ = (next_slot_ + 1) % kSlots;
    ATTN_CUDA(cudaMemcpyAsync(slot(index), static_cast<const char*>(source) + done, size,
                              cudaMemcpyDeviceToHost, stream_));
    ATTN_CUDA(cudaEventRecord(arrived_[index], stream_));
    pending_.push_back({static_cast<char*>(target) + done, size, index});
  }
}

void PinnedStaging::finish_oldest() {
  const Pending& oldest = pending_.front();
  ATTN_CUDA(cudaEventSynchronize(arrived_[oldest.slot]));
  std::memcpy(oldest.target, slot(oldest.slot), oldest.bytes);
  pending_.pop_front();
}

void PinnedStaging::finish_arrived() {
  while (!pending_.empty()) {
    const cudaError_t state = cudaEventQuery(arrived_[pending_.front().slot]);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();
      return;
    }
    ATTN_CUDA(state);
    finish_oldest();
  }
}

void PinnedStaging::finish_all() {
  ATTN_CUDA(cudaStreamSynchronize(stream_));
  while (!pending_.empty()) finish_oldest();
}

}  // namespace attn
