// attnppl as a function, so that tests can call it.
#pragma once

#include "apps/attnppl/options.h"

namespace attn {

// Prints, writes records, and returns the exit code. Throws Error for what stops the run before it begins.
int run_ppl(PplOptions options);

}  // namespace attn
