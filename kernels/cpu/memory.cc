// Copies, zeroes and reads of large blocks by all threads.
#include "kernels/cpu/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace attn::cpu {

namespace {
constexpr std::size_t kChunkBytes = 1U << 20;
std::int64_t chunks(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kChunkBytes - 1) / kChunkBytes);
}
}  // namespace

void copy_bytes(void* target, const void* source, std::size_t bytes) {
  char* out = static_cast<char*>(target);
  const char* in = static_cast<const char*>(source);
#pragma omp parallel for schedule(static) if (bytes > 4 * kChunkBytes)
  for (std::int64_t i = 0; i < chunks(bytes); ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kChunkBytes;
    std::memcpy(out + begin, in + begin, std::min(kChunkBytes, bytes - begin));
  }
}

void zero_bytes(void* target, std::size_t bytes) {
  char* out = static_cast<char*>(target);
#pragma omp parallel for schedule(static) if (bytes > 4 * kChunkBytes)
  for (std::int64_t i = 0; i < chunks(bytes); ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kChunkBytes;
    std::memset(out + begin, 0, std::min(kChunkBytes, bytes - begin));
  }
}

void read_bytes(const void* source, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(source);
  std::uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::int64_t chunk = 0; chunk < chunks(bytes); ++chunk) {
    const std::size_t begin = static_cast<std::size_t>(chunk) * (kChunkBytes / sizeof(std::uint64_t));
    const std::size_t end =
        std::min(begin + kChunkBytes / sizeof(std::uint64_t), bytes / sizeof(std::uint64_t));
    std::uint64_t part = 0;
    for (std::size_t i = begin; i < end; ++i) part += words[i];
    sum += part;
  }
  [[maybe_unused]] static volatile std::uint64_t kept;  // else nothing would be read
  kept = sum;
}

}  // namespace attn::cpu
