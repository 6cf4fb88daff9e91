// SHA-256 (FIPS 180-4): fingerprints of files and token streams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attn {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  // 64 lower-case hexadecimal digits of all bytes so far; the object may not be used after.
  std::string finish();

 private:
  void block(const std::byte* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t length_ = 0;
};

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace attn
