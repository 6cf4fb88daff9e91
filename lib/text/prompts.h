// Prompts: token ids to start a benchmark with, from a seed or from a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lib/text/token.h"

namespace attn {

// `count` ids, each uniform in 0..vocab_size-1, the same for a seed on every machine; a longer prompt begins
// with the shorter one of the same seed. `sequence` tells the rows of a batch apart. Error{usage}: vocab_size
// < 1, count < 0.
std::vector<TokenId> random_prompt(TokenId vocab_size, std::int64_t count, std::uint64_t seed,
                                   std::uint64_t sequence = 0);

// The first `max_tokens` ids, or all of them if there are fewer. Error{usage}: max_tokens < 1.
std::vector<TokenId> truncate_prompt(std::span<const TokenId> ids, std::int64_t max_tokens);

// Exactly `count` ids: the first ones, or the whole repeated from its beginning as often as needed.
// Error{bad_input}: ids is empty. Error{usage}: count < 1.
std::vector<TokenId> fit_prompt(std::span<const TokenId> ids, std::int64_t count);

// The text of a prompt file (plain or .zst), bytes untouched. Error{bad_input}: missing, empty, or not UTF-8.
std::string read_prompt_file(const std::filesystem::path& path);

}  // namespace attn
