// attnlogits as a function, so that tests can call it.
#pragma once

#include "apps/attnlogits/options.h"

namespace attn {

// Prints, writes records and the dump, and returns the exit code. Throws Error for what stops the run.
int run_logits(const LogitsOptions& options);

}  // namespace attn
