// The CPU as a Device.
#include "lib/backend_cpu/cpu_device.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include <sys/mman.h>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"

namespace attn {

namespace {

// The value of "name : value" in a file of such lines, or empty.
std::string field_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// /proc/meminfo counts in kB (of 1024 bytes); 0 where there is no such field.
std::size_t meminfo_bytes(std::string_view name) {
  return std::strtoull(field_of("/proc/meminfo", name).c_str(), nullptr, 10) * 1024;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// All caches of the highest level together, each counted once; 0 where the kernel does not tell.
std::size_t last_level_cache_bytes() {
  namespace fs = std::filesystem;
  std::string highest;
  std::size_t bytes = 0;
  std::set<std::string> seen;  // by the processors that share it
  std::error_code error;
  for (const auto& cpu : fs::directory_iterator("/sys/devices/system/cpu", error)) {
    for (const auto& cache : fs::directory_iterator(cpu.path() / "cache", error)) {
      const std::string level = first_line(cache.path() / "level");
      if (level.empty() || level < highest || first_line(cache.path() / "type") == "Instruction") continue;
      if (level > highest) {
        highest = level;
        bytes = 0;
        seen.clear();
      }
      if (!seen.insert(first_line(cache.path() / "shared_cpu_list")).second) continue;
      const std::string size = first_line(cache.path() / "size");  // "32768K"
      const std::size_t unit = size.ends_with('M') ? 1U << 20 : size.ends_with('K') ? 1U << 10 : 1;
      bytes += std::strtoull(size.c_str(), nullptr, 10) * unit;
    }
  }
  return bytes;
}

class CpuStopwatch : public Stopwatch {
 public:
  void start() override {
    marks_.clear();
    start_ = Clock::now();
  }
  void mark() override { marks_.push_back(Clock::now()); }
  std::vector<double> milliseconds() override {
    std::vector<double> out;
    out.reserve(marks_.size());
    for (const auto& moment : marks_)
      out.push_back(std::chrono::duration<double, std::milli>(moment - start_).count());
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  std::vector<Clock::time_point> marks_;
};

class CpuGraph : public Graph {
 public:
  explicit CpuGraph(std::function<void()> body) : body_(std::move(body)) {}
  void replay() override { body_(); }

 private:
  std::function<void()> body_;
};

constexpr std::size_t kHugePageBytes = 2U << 20;
constexpr std::size_t kLargeBytes = 2 * kHugePageBytes;

}  // namespace

DeviceInfo CpuDevice::info() const {
  std::string processor = field_of("/proc/cpuinfo", "model name");
  if (processor.empty()) processor = "CPU";
  return {"cpu",
          processor,
          meminfo_bytes("MemTotal"),
          cpu::threads(),
          cpu::blas_description(),
          last_level_cache_bytes()};
}

void* CpuDevice::raw_allocate(std::size_t bytes) {
  if (bytes >= kLargeBytes) {
    const std::size_t available = meminfo_bytes("MemAvailable");
    if (available > 0 && bytes > available + meminfo_bytes("SwapFree")) return nullptr;
  }
  const std::size_t alignment = bytes >= kLargeBytes ? kHugePageBytes : 64;
  if (bytes > SIZE_MAX - alignment) return nullptr;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data != nullptr && bytes >= kLargeBytes)
    madvise(data, rounded, MADV_HUGEPAGE);  // a wish: fewer page faults
  return data;
}

void CpuDevice::raw_release(void* data, std::size_t) { std::free(data); }

void CpuDevice::upload(void* target, const void* source, std::size_t bytes) {
  cpu::copy_bytes(target, source, bytes);
}
void CpuDevice::download(void* target, const void* source, std::size_t bytes) {
  cpu::copy_bytes(target, source, bytes);
}
void CpuDevice::download_later(void* target, const void* source, std::size_t bytes) {
  cpu::copy_bytes(target, source, bytes);
}
void CpuDevice::copy(void* target, const void* source, std::size_t bytes) {
  cpu::copy_bytes(target, source, bytes);
}
void CpuDevice::fill_zero(void* target, std::size_t bytes) { cpu::zero_bytes(target, bytes); }
void CpuDevice::read(const void* source, std::size_t bytes) { cpu::read_bytes(source, bytes); }

SensorAccess CpuDevice::sensors() {
  return {nullptr, "not available: clocks and power of the CPU are not read"};
}

std::unique_ptr<Stopwatch> CpuDevice::make_stopwatch() { return std::make_unique<CpuStopwatch>(); }
std::unique_ptr<Graph> CpuDevice::capture(std::function<void()> body) {
  return std::make_unique<CpuGraph>(std::move(body));
}

}  // namespace attn
