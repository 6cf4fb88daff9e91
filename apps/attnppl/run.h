// attnppl as a function, so that tests can call it.
#pragma once

#include "apps/attnppl/options.h"
#include "lib/backend/platform.h"

namespace attn {

// Prints, writes records, and returns the exit code. Throws Error for what stops the run before it begins.
int run_ppl(const PplOptions& options);
// The same on a device that is open already.
int run_ppl(const PplOptions& options, Platform& platform);

}  // namespace attn
