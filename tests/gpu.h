// A test that needs a GPU: opens it, or ends the test case as skipped with the reason.
#pragma once

#include <optional>
#include <string>

#include "lib/backend/platform.h"
#include "lib/core/error.h"
#include "tests/catch.h"

namespace attn {

// Nothing and the reason on a machine without a usable GPU; other failures are thrown.
inline std::optional<Platform> try_open_gpu(std::string& reason) {
  try {
    return open_platform("cuda");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    reason = error.what();
    return std::nullopt;
  }
}

}  // namespace attn

// Declares `platform`.
#define ATTN_OPEN_GPU(platform)                                                             \
  std::string platform##_reason;                                                            \
  std::optional<attn::Platform> platform##_or_none = attn::try_open_gpu(platform##_reason); \
  if (!platform##_or_none) ATTN_SKIP(platform##_reason.c_str());                            \
  attn::Platform& platform = *platform##_or_none
