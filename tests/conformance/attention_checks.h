// What every attention backend of a platform must do; each check returns a line for each failure.
#pragma once

#include <string>
#include <vector>

#include "lib/backend/platform.h"

namespace attn::conformance {

using Failures = std::vector<std::string>;

// The whole table in every dtype the backend takes: outputs and lse within the tolerances of the double
// reference, scratch and outputs poisoned with NaN before, nothing written outside them, inputs untouched,
// and every kernel of kernels() run at least once.
Failures check_against_definition(Platform& platform, AttentionBackend& backend);

// 200 runs give the same bits.
Failures check_repeats(Platform& platform, AttentionBackend& backend);

// A sequence alone = the same sequence in a batch: the same bits, or with `bitwise` false within the
// tolerances.
Failures check_batch_independence(Platform& platform, AttentionBackend& backend, bool bitwise);

// The last query of a prefill of T tokens = a decode step over T keys, T = 1, 4, 7 ... 300.
Failures check_prefill_equals_decode(Platform& platform, AttentionBackend& backend);

}  // namespace attn::conformance
