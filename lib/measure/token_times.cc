// The formulas of token_metric_definitions(), applied to one repetition.
#include "lib/measure/token_times.h"

#include <array>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

constexpr std::array kDefinitions{
    MetricDefinition{
        "ttft_ms", "ms",
        "time to first token: from the call with the prompt's ids on the host to the first new id "
        "on the host"},
    MetricDefinition{"tpot_ms", "ms",
                     "time per output token: (end - first) / (n - 1); not defined for n = 1 new token"},
    MetricDefinition{"itl_ms", "ms", "inter-token latency: each of the n - 1 gaps between new tokens"},
    MetricDefinition{"e2e_ms", "ms", "end to end: from the call to the last new id on the host"},
    MetricDefinition{"throughput_tps", "tokens/s",
                     "decode throughput: batch * (n - 1) / (end - first), all sequences counted"},
    MetricDefinition{"output_tps", "tokens/s", "new tokens: batch * n / e2e"},
    MetricDefinition{"total_tps", "tokens/s", "prompt and new tokens: batch * (prompt + n) / e2e"},
    MetricDefinition{"prefill_tps", "tokens/s",
                     "prompt tokens: batch * prompt / ttft; logits of the last position only"},
};

void check_stamps(std::span<const double> token_ms) {
  if (token_ms.empty()) fail(ErrorKind::internal, "a repetition has no time stamps");
  double previous = 0;
  for (const double stamp : token_ms) {
    if (!std::isfinite(stamp) || stamp < previous) {
      fail(ErrorKind::internal, "time stamp {} ms follows {} ms: the clock ran backwards", stamp, previous);
    }
    previous = stamp;
  }
}

std::optional<double> rate_per_s(double tokens, double elapsed_ms) {
  if (elapsed_ms <= 0) return std::nullopt;
  return tokens * 1000.0 / elapsed_ms;
}

}  // namespace

std::span<const MetricDefinition> token_metric_definitions() { return kDefinitions; }

TokenMetrics token_metrics(std::span<const double> token_ms, int batch, int prompt_tokens) {
  check_stamps(token_ms);
  if (batch < 1 || prompt_tokens < 1) {
    fail(ErrorKind::internal, "batch {} and prompt_tokens {} must be positive", batch, prompt_tokens);
  }
  const double first = token_ms.front();
  const double end = token_ms.back();
  const auto n = static_cast<double>(token_ms.size());
  TokenMetrics metrics;
  metrics.ttft_ms = first;
  metrics.e2e_ms = end;
  for (std::size_t i = 1; i < token_ms.size(); ++i) metrics.itl_ms.push_back(token_ms[i] - token_ms[i - 1]);
  if (token_ms.size() > 1) {
    metrics.tpot_ms = (end - first) / (n - 1);
    metrics.decode_tps = rate_per_s(batch * (n - 1), end - first);
  } else {
    metrics.tpot_reason = "one new token: there is no token after the first to time";
  }
  metrics.output_tps = rate_per_s(batch * n, end);
  metrics.total_tps = rate_per_s(batch * (prompt_tokens + n), end);
  metrics.prefill_tps = rate_per_s(static_cast<double>(batch) * prompt_tokens, first);
  return metrics;
}

}  // namespace attn
