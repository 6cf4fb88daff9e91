// TokenId: what a tokenizer makes of text and a model eats; with the fingerprint of a sequence of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace attn {

using TokenId = std::int32_t;

// SHA-256, in lower-case hexadecimal, of the ids written as little-endian 32-bit words: two programs that
// print the same fingerprint scored the same tokens.
std::string token_stream_sha256(std::span<const TokenId> ids);

}  // namespace attn
