// What summarize does with its options.
#pragma once

#include "apps/summarize/options.h"

namespace attn {

inline constexpr int kNothingComparable = 3;

// Tables on stdout (and in options.out); warnings and what could not be paired on stderr. Returns the exit
// code.
int run_summarize(const SummarizeOptions& options);

}  // namespace attn
