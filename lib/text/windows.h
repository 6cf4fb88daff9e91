// Windows: which tokens are fed to a model together, and which of them are scored, when a text is longer than
// the context.
#pragma once

#include <cstdint>
#include <vector>

namespace attn {

// Token indices in the whole text. Tokens begin..end-1 are fed in one pass; token t is scored by the logits
// at t - 1, for first_scored <= t < end. A token is never scored without one before it: begin < first_scored,
// or begin == first_scored where a BOS id is fed first.
struct Window {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first_scored = 0;
  bool bos = false;          // a BOS id is fed before token begin
  bool target_last = false;  // token end - 1 is scored but not fed, as nothing after it needs it

  std::int64_t tokens() const { return end - begin + (bos ? 1 : 0) - (target_last ? 1 : 0); }  // fed
  std::int64_t scored() const { return end - first_scored; }
  friend bool operator==(const Window&, const Window&) = default;
};

// The rule: the first window feeds tokens 0..context-1 and scores all but token 0. Each later window goes on
// where the one before ended, keeps max(1, context - stride) tokens before that as left context, and scores
// every new one; the last one may be short. So every token but the first is scored exactly once, and with
// stride < context these are the windows of the Hugging Face "fixed-length models" recipe. With stride =
// context one token of left context remains, since a token without a predecessor has no prediction: windows
// then advance by context - 1. No windows for fewer than two tokens: there is nothing to score. Error{usage}:
// stride < 1, stride > context, context < 2, token_count < 0.
std::vector<Window> plan_windows(std::int64_t token_count, std::int64_t context, std::int64_t stride);

}  // namespace attn
