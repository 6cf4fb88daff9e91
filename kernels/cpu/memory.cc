// Copies and zeroes of large blocks by all threads.
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

}  // namespace attn::cpu
