// The planning of perplexity windows.
#include "lib/text/windows.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {

std::vector<Window> plan_windows(std::int64_t token_count, std::int64_t context, std::int64_t stride) {
  if (token_count < 0) fail(ErrorKind::usage, "windows over {} tokens are not possible", token_count);
  if (context < 2)
    fail(ErrorKind::usage, "a context of {} tokens scores nothing: it must be at least 2", context);
  if (stride < 1 || stride > context) {
    fail(ErrorKind::usage, "a stride of {} is not in 1..{} (the context)", stride, context);
  }
  std::vector<Window> windows;
  if (token_count < 2) return windows;
  const std::int64_t kept = std::max<std::int64_t>(1, context - stride);
  windows.push_back({0, std::min(context, token_count), 1});
  while (windows.back().end < token_count) {
    const std::int64_t first_scored = windows.back().end;
    const std::int64_t begin = first_scored - kept;
    windows.push_back({begin, begin + std::min(context, token_count - begin), first_scored});
  }
  return windows;
}

}  // namespace attn
