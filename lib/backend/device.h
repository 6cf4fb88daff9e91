// Device: memory by purpose, copies, order of work, time, and captured work of a CPU or one GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/backend/memory_ledger.h"
#include "lib/backend/random_fill.h"
#include "lib/backend/sensors.h"
#include "lib/tensor/tensor.h"

namespace attn {

struct DeviceInfo {
  std::string spec;             // "cpu", "cuda:0": what opens it again
  std::string description;      // processor or GPU name
  std::size_t total_bytes;      // of its memory
  int threads;                  // CPU threads in use; 0 on a GPU
  std::string libraries;        // the matrix-product library and its version
  std::size_t cache_bytes = 0;  // of the last-level cache; 0: not known
  std::size_t free_bytes = 0;   // that can still be taken; 0: not known
};

// Marks moments in the device's order of work, without making the host wait.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual void start() = 0;  // forgets earlier marks
  virtual void mark() = 0;   // when all work given to the device so far is done
  // Waits for the last mark; milliseconds from start() to each mark.
  virtual std::vector<double> milliseconds() = 0;
};

// Work that can be given to the device again at no cost of preparation.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;
};

inline constexpr std::size_t kFilledBytes = std::size_t{16} << 20;

// Work is done in the order it is given; the host waits only in download() and synchronize().
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  // True where allocate() gives memory that the host may write itself (the CPU device): weights are then
  // converted in place instead of through a second copy.
  virtual bool host_memory() const { return false; }

  // At least 64-byte aligned, uninitialised. Zero bytes give an empty buffer. Throws OutOfMemory
  // (out_of_memory.h).
  Buffer allocate(std::size_t bytes, MemoryUse use);
  Tensor allocate_tensor(DType dtype, const Shape& shape, MemoryUse use);

  virtual void upload(void* target, const void* source, std::size_t bytes) = 0;
  virtual void download(void* target, const void* source, std::size_t bytes) = 0;
  // Like download, but does not wait: `target` is valid once a later synchronize() or stopwatch mark has
  // passed.
  virtual void download_later(void* target, const void* source, std::size_t bytes) = 0;
  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;  // device to device
  virtual void fill_zero(void* target, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // `bytes` (at most kFilledBytes) that `fill` writes to the place it is given, called before this returns;
  // on a GPU the place is page-locked and the copy runs beside the next call's `fill`.
  virtual void upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill);
  // Makes the numbers of a matrix [rows, columns] (rows may be strided) on the device. False, with nothing
  // done, where they must be made on the host.
  virtual bool fill_random(const TensorView& /*matrix*/, const RandomFill& /*fill*/) { return false; }
  // Reads every byte and keeps nothing, at the rate that the memory gives; `source` and `bytes` are multiples
  // of 64. Throws Error{unsupported} on a device that has no such kernel.
  virtual void read(const void* source, std::size_t bytes);
  // Opened anew at each call.
  virtual SensorAccess sensors() { return {nullptr, "not available on this device"}; }

  virtual std::unique_ptr<Stopwatch> make_stopwatch() = 0;
  // Work to be given again and again. CUDA calls `body` once, which then only records: replay() does what it
  // would have done, on the same memory, and body must not allocate, copy to the host, or wait. The CPU keeps
  // `body` and calls it at each replay.
  virtual std::unique_ptr<Graph> capture(std::function<void()> body) = 0;
  // Whether capture() records.
  virtual bool records() const { return false; }

  const MemoryLedger& memory() const { return *ledger_; }
  void reset_peaks() { ledger_->reset_peaks(); }

 protected:
  virtual void* raw_allocate(std::size_t bytes) = 0;  // null when the memory is not there
  virtual void raw_release(void* data, std::size_t bytes) = 0;

 private:
  std::unique_ptr<MemoryLedger> ledger_ = std::make_unique<MemoryLedger>();
};

}  // namespace attn
