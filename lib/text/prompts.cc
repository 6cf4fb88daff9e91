// Prompts from a seed, from ids, from a file.
#include "lib/text/prompts.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/core/text_file.h"
#include "lib/text/tokenizer.h"

namespace attn {

std::vector<TokenId> random_prompt(TokenId vocab_size, std::int64_t count, std::uint64_t seed,
                                   std::uint64_t sequence) {
  if (vocab_size < 1)
    fail(ErrorKind::usage, "a random prompt needs a vocabulary, not one of {} tokens", vocab_size);
  if (count < 0) fail(ErrorKind::usage, "a prompt of {} tokens is not possible", count);
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The high half of bits * n is uniform in 0..n-1 (Lemire 2019), to one part in 2^32 / n.
    const std::uint64_t bits = random_bits(seed, sequence, i) >> 32;
    ids[i] = static_cast<TokenId>(bits * static_cast<std::uint64_t>(vocab_size) >> 32);
  }
  return ids;
}

std::vector<TokenId> truncate_prompt(std::span<const TokenId> ids, std::int64_t max_tokens) {
  if (max_tokens < 1) fail(ErrorKind::usage, "a prompt cut to {} tokens is not possible", max_tokens);
  const auto kept = std::min(ids.size(), static_cast<std::size_t>(max_tokens));
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept)};
}

std::vector<TokenId> fit_prompt(std::span<const TokenId> ids, std::int64_t count) {
  if (count < 1) fail(ErrorKind::usage, "a prompt of {} tokens is not possible", count);
  if (ids.empty()) fail(ErrorKind::bad_input, "an empty prompt cannot be brought to {} tokens", count);
  std::vector<TokenId> fitted(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < fitted.size(); ++i) fitted[i] = ids[i % ids.size()];
  return fitted;
}

std::string read_prompt_file(const std::filesystem::path& path) {
  std::string text = read_text_file(path, std::size_t{1} << 30);
  if (text.empty()) fail(ErrorKind::bad_input, "{}: the prompt is empty", path.string());
  validate_utf8(text, path.string());
  return text;
}

}  // namespace attn
