// The fingerprint of a token stream.
#include "lib/text/token.h"

#include <array>
#include <cstddef>

#include "lib/core/sha256.h"

namespace attn {

std::string token_stream_sha256(std::span<const TokenId> ids) {
  Sha256 hash;
  std::array<std::byte, 4> bytes;
  for (const TokenId id : ids) {
    for (unsigned i = 0; i < 4; ++i)
      bytes[i] = static_cast<std::byte>(static_cast<std::uint32_t>(id) >> (8 * i));
    hash.update(bytes);
  }
  return hash.finish();
}

}  // namespace attn
