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
  constexpr std::size_t kLine = 64 / sizeof(std::uint64_t);
  constexpr std::size_t kBlock = 8 * kLine;
  constexpr std::size_t kAhead = 8 * kBlock;  // measured: 4 % more than the processor's own prefetching
  constexpr std::size_t kChunk = kChunkBytes / sizeof(std::uint64_t);
  const auto* words = static_cast<const std::uint64_t*>(source);
  const std::size_t count = bytes / sizeof(std::uint64_t);
  std::uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::int64_t chunk = 0; chunk < chunks(bytes); ++chunk) {
    std::size_t i = static_cast<std::size_t>(chunk) * kChunk;
    const std::size_t end = std::min(i + kChunk, count);
    for (; i + kBlock <= end; i += kBlock) {
      for (std::size_t n = 0; n < kBlock; n += kLine) __builtin_prefetch(words + i + kAhead + n);
      std::uint64_t part = 0;
      for (std::size_t n = 0; n < kBlock; ++n) part += words[i + n];
      sum += part;
    }
    for (; i < end; ++i) sum += words[i];
  }
  [[maybe_unused]] static volatile std::uint64_t kept;  // else nothing would be read
  kept = sum;
}

}  // namespace attn::cpu
