// `attnbench op` from options to records.
#include <cstdio>

#include <fmt/format.h>

#include "apps/attnbench/op_bench.h"
#include "apps/attnbench/run.h"
#include "apps/interrupt.h"
#include "apps/summary_fields.h"
#include "lib/measure/statistics.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

ResultRecord record_of(const AttentionProblem& problem, const OpModeResult& result, const OpOptions& options,
                       const DeviceInfo& device, const Fields& environment) {
  ResultRecord record;
  record.app = "attnbench op";
  record.time = utc_now();
  record.environment = environment;
  record.parameters = {
      {"mode", result.mode},      {"device", device.spec},      {"dtype", kDTypeNames.name(problem.dtype)},
      {"batch", problem.batch},   {"q_heads", problem.q_heads}, {"kv_heads", problem.kv_heads},
      {"q_len", problem.q_len},   {"kv_len", problem.kv_len},   {"head_dim", problem.head_dim},
      {"causal", problem.causal}, {"seed", options.seed},       {"threads", device.threads},
      {"warmup", options.warmup}, {"reps", options.reps}};
  if (!result.failure.empty()) {
    record.outcome =
        result.failure_kind == ErrorKind::out_of_memory ? Outcome::out_of_memory : Outcome::unsupported;
    record.reason = result.failure;
    return record;
  }
  record.metrics["kernel"] = result.kernel;
  record.metrics["rows_compared"] = result.error.rows;
  record.memory = {{"scores_bytes", result.scores_bytes}, {"workspace_bytes", result.workspace_bytes}};
  if (!result.error.finite) {
    record.outcome = Outcome::nonfinite;
    record.reason = "the output holds a value that is not finite, or was not written; the times mean nothing";
    return record;
  }
  record.metrics["max_abs_error"] = result.error.max_abs;
  record.metrics["relative_error"] = result.error.relative;
  if (result.time_ms.size() < static_cast<std::size_t>(options.reps)) {
    record.outcome = Outcome::interrupted;
    record.reason = "interrupted: " + std::to_string(result.time_ms.size()) + " repetitions were measured";
  }
  const auto summary = summary_of(result.time_ms);
  if (!summary) return record;
  const double per_ms = 1.0 / summary->median;
  record.metrics["time_ms"] = summary->median;
  record.metrics["tflops"] = model_flops(problem) * per_ms * 1e-9;
  record.metrics["tflops_full_matrix"] = full_matrix_flops(problem) * per_ms * 1e-9;
  record.metrics["gb_s"] = least_bytes(problem) * per_ms * 1e-6;
  record.statistics["time_ms"] = summary_fields(*summary);
  record.samples["time_ms"] = result.time_ms;
  return record;
}

void print_line(const AttentionProblem& problem, const ResultRecord& record) {
  const auto metric = [&](std::string_view key) {
    const Value* value = record.metrics.find(key);
    return value != nullptr && value->number() ? fmt::format("{:.4g}", *value->number()) : std::string("-");
  };
  fmt::print("{:<9} {:<66} {:>9} ms {:>9} TFLOP/s {:>8} GB/s  error {} ({})\n",
             display(*record.parameters.find("mode")), problem.text(), metric("time_ms"), metric("tflops"),
             metric("gb_s"), metric("relative_error"), kOutcomes.name(record.outcome));
  std::fflush(stdout);
  if (!record.reason.empty()) fmt::print(stderr, "attnbench op: {}\n", record.reason);
}

}  // namespace

int run_op(const OpOptions& options) {
  check(options);
  Platform platform = open_platform(
      options.device,
      {options.threads, kBaselineScoresNames.parse(options.baseline_scores, "--baseline-scores")});
  const DeviceInfo device = platform.device->info();
  const auto problems = op_problems(options, resolve_dtype(options.dtype, *platform.device));
  ResultWriter writer(options.out, "attnbench_op.jsonl");
  const Fields environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  catch_interrupts();
  int worst = 0;
  for (const AttentionProblem& problem : problems) {
    for (const OpModeResult& result : measure_op(platform, problem, options)) {
      const ResultRecord record = record_of(problem, result, options, device, environment);
      writer.append(record);
      print_line(problem, record);
      if (worst == 0 && !result.failure.empty()) worst = exit_code(result.failure_kind);
      if (worst == 0 && record.outcome == Outcome::nonfinite) worst = 1;
    }
    if (interrupted()) {
      fmt::print(stderr, "attnbench op: interrupted; {} is valid and holds every case up to here\n",
                 writer.path().string());
      return kInterruptedExitCode;
    }
  }
  fmt::print("Saved {}\n", writer.path().string());
  return worst;
}

}  // namespace attn
