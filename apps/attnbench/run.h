// The programs attnbench and `attnbench op`, callable from tests.
#pragma once

#include <optional>

#include "apps/attnbench/options.h"
#include "lib/measure/roofline.h"

namespace attn {

// Prints on stdout, writes records to options.out, and returns the exit code: 0; that of the first case that
// failed; 1 where logits were not finite, or a figure was faster than the device can be; 130 after SIGINT.
// Throws Error where nothing can be measured.
int run_bench(const BenchOptions& options);
int run_op(const OpOptions& options);

// The same on a device that is open already. `ceilings`: instead of measuring them.
int run_bench(const BenchOptions& options, Platform& platform, const std::optional<Ceilings>& ceilings = {});
int run_op(const OpOptions& options, Platform& platform, const std::optional<Ceilings>& ceilings = {});

}  // namespace attn
