// Latency and throughput of one repetition, from the time stamps of its tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

// What each value means stands in token_metric_definitions(). A value that is not defined is missing, never
// 0.
struct TokenMetrics {
  double ttft_ms = 0;
  std::optional<double> tpot_ms;
  std::string tpot_reason;     // why tpot_ms is missing; else empty
  std::vector<double> itl_ms;  // the n - 1 gaps between tokens
  double e2e_ms = 0;
  std::optional<double> decode_tps, output_tps, total_tps, prefill_tps;  // missing where the time is 0
};

// token_ms: for one repetition, when the id of each new token was on the host, in ms since the call with the
// prompt's ids on the host. In a batch all sequences advance together, one stamp a step. Throws
// Error{internal} if the stamps are empty, negative, non-finite or decreasing (a clock or bookkeeping bug),
// or if batch or prompt_tokens < 1.
TokenMetrics token_metrics(std::span<const double> token_ms, int batch, int prompt_tokens);

struct MetricDefinition {
  std::string_view name, unit, formula;
};
// The formulas, for --help and the documentation.
std::span<const MetricDefinition> token_metric_definitions();

}  // namespace attn
