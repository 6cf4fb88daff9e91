// `attnbench op` from options to records.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "apps/attnbench/op_bench.h"
#include "apps/attnbench/run.h"
#include "apps/interrupt.h"
#include "apps/measure_ceilings.h"
#include "apps/roofline_fields.h"
#include "apps/summary_fields.h"
#include "lib/measure/statistics.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

ResultRecord record_of(const AttentionProblem& problem, const OpModeResult& result, const OpOptions& options,
                       const DeviceInfo& device, const Fields& environment, const Ceilings& ceilings) {
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
  record.extra["ceilings"] = ceiling_fields(ceilings);
  if (!result.failure.empty()) {
    if (result.failure_kind == ErrorKind::out_of_memory) {
      record.metrics["bytes_asked"] = result.refused ? Value(result.refused->bytes) : Value();
      if (result.refused) record.metrics["bytes_asked_for"] = kMemoryUseNames.name(result.refused->use);
    }
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
  record.metrics["calls_per_sample"] = result.calls;
  record.metrics["copies"] = result.copies;
  const double bytes = least_bytes(problem);
  add_limit(record, "time", limit_of({model_flops(problem), bytes, bytes * result.copies}, ceilings),
            summary->median);
  record.statistics["time_ms"] = summary_fields(*summary);
  record.samples["time_ms"] = result.time_ms;
  return record;
}

void print_line(const AttentionProblem& problem, const ResultRecord& record) {
  const auto metric = [&](std::string_view key) {
    const Value* value = record.metrics.find(key);
    return value != nullptr && value->number() ? fmt::format("{:.4g}", *value->number()) : std::string("-");
  };
  const Value* share = record.metrics.find("time_share_of_limit");
  fmt::print("{:<9} {:<66} {:>9} ms {:>9} TFLOP/s {:>8} GB/s {:>6} of limit  error {} ({})\n",
             display(*record.parameters.find("mode")), problem.text(), metric("time_ms"), metric("tflops"),
             metric("gb_s"), share != nullptr ? fmt::format("{:.1f} %", 100 * *share->number()) : "-",
             metric("relative_error"), kOutcomes.name(record.outcome));
  std::fflush(stdout);
  if (!record.reason.empty()) fmt::print(stderr, "attnbench op: {}\n", record.reason);
}

}  // namespace

int run_op(const OpOptions& options) {
  check(options);
  Platform platform = open_platform(
      options.device, PlatformOptions{options.threads, kBaselineScoresNames.parse(options.baseline_scores,
                                                                                  "--baseline-scores")});
  return run_op(options, platform);
}

int run_op(const OpOptions& options, Platform& platform, const std::optional<Ceilings>& given) {
  const DeviceInfo device = platform.device->info();
  const DType dtype = resolve_dtype(options.dtype, *platform.device);
  const auto problems = op_problems(options, dtype);
  double most_bytes = 0;
  for (const AttentionProblem& problem : problems) {
    // On a GPU copies make every problem larger than the cache.
    const double caches = device.spec == "cpu" ? 0 : 2.0 * static_cast<double>(device.cache_bytes);
    most_bytes = std::max({most_bytes, least_bytes(problem), caches});
  }
  ResultWriter writer(options.out, "attnbench_op.jsonl");
  const Fields environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  catch_interrupts();
  Ceilings ceilings = given ? *given : measure_ceilings(platform, dtype, most_bytes);
  fmt::print("{}\n", ceilings_text(ceilings, dtype));
  int worst = 0;
  for (const AttentionProblem& problem : problems) {
    for (const OpModeResult& result : measure_op(platform, problem, options, ceilings)) {
      ResultRecord record = record_of(problem, result, options, device, environment, ceilings);
      if (record.outcome == Outcome::error && !given) {  // the machine may have been busy the first time
        ceilings = fastest(ceilings, measure_ceilings(platform, dtype, most_bytes));
        record = record_of(problem, result, options, device, environment, ceilings);
      }
      writer.append(record);
      print_line(problem, record);
      if (worst == 0 && !result.failure.empty()) worst = exit_code(result.failure_kind);
      if (worst == 0 && (record.outcome == Outcome::nonfinite || record.outcome == Outcome::error)) worst = 1;
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
