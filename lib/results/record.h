// ResultRecord: everything known about one measured case. One JSON object on disk, schema "attnbench/1"
// (docs/results.md).
#pragma once

#include <string>
#include <string_view>

#include "lib/core/enum_names.h"
#include "lib/results/value.h"

namespace attn {

inline constexpr std::string_view kResultSchema = "attnbench/1";

enum class Outcome { ok, unsupported, out_of_memory, interrupted, nonfinite, error };
inline constexpr auto kOutcomes = name_table<Outcome>({{Outcome::ok, "ok"},
                                                       {Outcome::unsupported, "unsupported"},
                                                       {Outcome::out_of_memory, "out_of_memory"},
                                                       {Outcome::interrupted, "interrupted"},
                                                       {Outcome::nonfinite, "nonfinite"},
                                                       {Outcome::error, "error"}});

struct ResultRecord {
  std::string app;   // "attnbench", "attnbench op", "attnppl", "attnlogits"
  std::string time;  // when the case ended, RFC 3339 UTC: utc_now() of environment.h
  Outcome outcome = Outcome::ok;
  std::string reason;  // why the outcome is not ok; else empty
  Fields metrics;      // scalars with units in their names; flat at the top level on disk; null = not defined
  Fields
      parameters;  // all that defines the case, including "mode"; pairing compares all of them but the mode
  Fields memory;   // bytes, by purpose and moment
  Fields statistics;   // metric -> {n, median, mean, ...}
  Fields samples;      // raw measurements
  Fields environment;  // environment.h
  Fields extra;        // any other top-level keys
  std::string source;  // "file:line" it was read from; not written
};

// The layout on disk. Where parameters has "new_tokens", the keys of system B (batch_size, max_new_tokens,
// prompt_seq_len, ttft_ms, tpot_ms, throughput_tps, peak_mem_mb, config) are there too.
Fields to_fields(const ResultRecord& record);

// The inverse; `source` for messages. Unknown scalar keys become metrics, unknown objects and arrays `extra`;
// missing keys stay empty. Throws Error{bad_input} for a schema other than attnbench/1 or an unknown outcome.
ResultRecord record_from(const Fields& object, std::string source);

}  // namespace attn
