// What every attention backend of a platform must do; each check returns a line for each failure.
#pragma once

#include <initializer_list>

#include "tests/conformance/attention_run.h"

namespace attn::conformance {

// The whole table in every dtype the backend takes: outputs and lse within the tolerances of the double
// reference, scratch and outputs poisoned with NaN before, nothing written outside them, inputs untouched,
// and every kernel of kernels() run at least once.
Failures check_against_definition(Platform& platform, AttentionBackend& backend);

// `count` runs in a row give the same bits, many queries and one, at each head dimension in every dtype.
Failures check_repeats(Platform& platform, AttentionBackend& backend, int count,
                       std::initializer_list<int> head_dims);

// A sequence alone = the same sequence in a batch: the same bits, or with `bitwise` false within the
// tolerances.
Failures check_batch_independence(Platform& platform, AttentionBackend& backend, bool bitwise);

// The last query of a prefill of T tokens = a decode step over T keys, T = 1, 2 ... 19, 32, 45 ... 292.
Failures check_prefill_equals_decode(Platform& platform, AttentionBackend& backend,
                                     std::initializer_list<int> head_dims);

// Queries that see no key give exactly 0 and an lse of minus infinity.
Failures check_no_keys(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims);

// n equal scores: the lse is ln n, the output the mean of the values.
Failures check_equal_scores(Platform& platform, AttentionBackend& backend,
                            std::initializer_list<int> head_dims);

// One key, whatever its score: the output is its value, bit for bit.
Failures check_one_key(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims);

// Every query head reads the key head of its group: the values of key head j are all j + 1.
Failures check_groups(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims);

}  // namespace attn::conformance
