// Book-keeping of device memory.
#include "lib/backend/memory_ledger.h"

#include <algorithm>

namespace attn {

void MemoryLedger::add(std::size_t bytes, MemoryUse use) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<std::size_t>(use);
  live_[i] += bytes;
  live_total_ += bytes;
  peaks_[i] = std::max(peaks_[i], live_[i]);
  if (live_total_ > peak_total_) {
    peak_total_ = live_total_;
    at_peak_ = live_;
  }
}

void MemoryLedger::remove(std::size_t bytes, MemoryUse use) {
  const std::lock_guard lock(mutex_);
  live_[static_cast<std::size_t>(use)] -= bytes;
  live_total_ -= bytes;
}

void MemoryLedger::reset_peaks() {
  const std::lock_guard lock(mutex_);
  peaks_ = live_;
  at_peak_ = live_;
  peak_total_ = live_total_;
}

std::size_t MemoryLedger::live_bytes() const {
  const std::lock_guard lock(mutex_);
  return live_total_;
}

std::size_t MemoryLedger::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_total_;
}

BytesByUse MemoryLedger::peaks() const {
  const std::lock_guard lock(mutex_);
  return peaks_;
}

BytesByUse MemoryLedger::at_peak() const {
  const std::lock_guard lock(mutex_);
  return at_peak_;
}

}  // namespace attn
