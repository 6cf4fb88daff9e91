// The programs attnbench and `attnbench op`, callable from tests.
#pragma once

#include "apps/attnbench/options.h"

namespace attn {

// Prints on stdout, writes records to options.out, and returns the exit code: 0; that of the first case that
// failed; 1 where logits were not finite; 130 after SIGINT. Throws Error where nothing can be measured.
int run_bench(const BenchOptions& options);
int run_op(const OpOptions& options);

}  // namespace attn
