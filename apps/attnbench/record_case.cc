// Records of attnbench.
#include "apps/attnbench/record_case.h"

#include <algorithm>

#include "apps/attnbench/sensor_fields.h"
#include "apps/roofline_fields.h"
#include "apps/summary_fields.h"
#include "lib/measure/statistics.h"
#include "lib/measure/token_times.h"
#include "lib/model/work.h"
#include "lib/results/environment.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

Fields parameter_fields(const BenchOptions& options, const Platform& platform, const Model& model,
                        const BenchCase& bench_case, const ModeResult& mode) {
  const DeviceInfo device = platform.device->info();
  return {{"mode", mode.mode},
          {"model", model.source.name},
          {"model_source", model.load.random ? "random weights" : model.source.how},
          {"random_weights", model.load.random},
          {"device", device.spec},
          {"dtype", kDTypeNames.name(model.weights.dtype)},
          {"batch_size", bench_case.batch},
          {"prompt", bench_case.prompt.label},
          {"prompt_tokens", bench_case.prompt_tokens()},
          {"prompt_sha256", token_stream_sha256(bench_case.prompt.ids)},
          {"max_prompt_tokens", options.max_prompt_tokens},
          {"new_tokens", bench_case.new_tokens},
          {"temperature", options.sampling.temperature},
          {"top_k", options.sampling.top_k},
          {"top_p", options.sampling.top_p},
          {"seed", options.model.seed},
          {"threads", device.threads},
          {"warmup", options.warmup},
          {"reps", options.reps}};
}

void set_outcome(ResultRecord& record, const CaseResult& result, const ModeResult& mode) {
  if (!mode.failure.empty()) {
    record.outcome = result.interrupted                              ? Outcome::interrupted
                     : mode.failure_kind == ErrorKind::out_of_memory ? Outcome::out_of_memory
                                                                     : Outcome::unsupported;
    record.reason = mode.failure;
  } else if (!mode.finite) {
    record.outcome = Outcome::nonfinite;
    record.reason = "the logits hold a value that is not finite; nothing was timed";
  } else if (result.interrupted) {
    record.outcome = Outcome::interrupted;
    record.reason = "interrupted: " + std::to_string(mode.token_ms.size()) + " repetitions were measured";
  }
}

// The metrics that are a value a repetition, in the order of the record.
struct Series {
  std::vector<double> ttft_ms, tpot_ms, e2e_ms, decode_tps, output_tps, total_tps, prefill_tps, itl_ms;
};

Series series_of(const ModeResult& mode, const BenchCase& bench_case, std::string& tpot_reason) {
  Series series;
  const auto keep = [](std::vector<double>& values, const std::optional<double>& value) {
    if (value) values.push_back(*value);
  };
  for (const auto& token_ms : mode.token_ms) {
    const TokenMetrics metrics = token_metrics(token_ms, bench_case.batch, bench_case.prompt_tokens());
    series.ttft_ms.push_back(metrics.ttft_ms);
    series.e2e_ms.push_back(metrics.e2e_ms);
    series.itl_ms.insert(series.itl_ms.end(), metrics.itl_ms.begin(), metrics.itl_ms.end());
    keep(series.tpot_ms, metrics.tpot_ms);
    keep(series.decode_tps, metrics.decode_tps);
    keep(series.output_tps, metrics.output_tps);
    keep(series.total_tps, metrics.total_tps);
    keep(series.prefill_tps, metrics.prefill_tps);
    tpot_reason = metrics.tpot_reason;
  }
  return series;
}

void add_series(ResultRecord& record, std::string_view name, const std::vector<double>& values) {
  const auto summary = summary_of(values);
  record.metrics[name] = summary ? Value(summary->median) : Value();
  if (summary) record.statistics[name] = summary_fields(*summary);
}

void add_times(ResultRecord& record, const ModeResult& mode, const BenchCase& bench_case) {
  std::string tpot_reason;
  const Series series = series_of(mode, bench_case, tpot_reason);
  add_series(record, "ttft_ms", series.ttft_ms);
  add_series(record, "tpot_ms", series.tpot_ms);
  if (!tpot_reason.empty()) record.metrics["tpot_reason"] = tpot_reason;
  add_series(record, "itl_ms", series.itl_ms);
  add_series(record, "e2e_ms", series.e2e_ms);
  add_series(record, "throughput_tps", series.decode_tps);
  add_series(record, "output_tps", series.output_tps);
  add_series(record, "total_tps", series.total_tps);
  add_series(record, "prefill_tps", series.prefill_tps);
  if (!mode.cold.token_ms.empty()) {
    record.metrics["cold_ttft_ms"] = mode.cold.token_ms.front();
    record.metrics["cold_e2e_ms"] = mode.cold.token_ms.back();
    record.samples["cold_token_ms"] = mode.cold.token_ms;
  }
  record.samples["ttft_ms"] = series.ttft_ms;
  Value::Array repetitions;
  for (const auto& token_ms : mode.token_ms) repetitions.emplace_back(token_ms);
  record.samples["token_ms"] = std::move(repetitions);
}

Fields work_fields(const ForwardWork& work) {
  return {{"product_flops", work.product_flops},
          {"attention_flops_causal", work.attention_flops_causal},
          {"attention_flops_full", work.attention_flops_full},
          {"weight_bytes", work.weight_bytes},
          {"kv_read_bytes", work.kv_read_bytes},
          {"kv_written_bytes", work.kv_written_bytes}};
}

// The work of a prefill and of a mean decode step, the limits that follow, and the rates.
void add_roofline(ResultRecord& record, const Model& model, const BenchCase& bench_case,
                  const RunFacts& facts) {
  const auto metric = [&](std::string_view key) {
    const Value* value = record.metrics.find(key);
    return value != nullptr ? value->number() : std::nullopt;
  };
  const DType dtype = model.weights.dtype;
  const ForwardWork prefill = prefill_work(model.config, dtype, bench_case.batch, bench_case.prompt_tokens());
  Fields work{{"prefill", work_fields(prefill)}};
  add_limit(record, "ttft", limit_of({prefill.flops(), prefill.bytes()}, facts.ceilings), metric("ttft_ms"));
  if (const auto ttft_ms = metric("ttft_ms"); ttft_ms && *ttft_ms > 0)
    record.metrics["prefill_tflops"] = prefill.flops() / (*ttft_ms * 1e9);
  if (bench_case.new_tokens > 1) {
    const ForwardWork step = mean_decode_work(model.config, dtype, bench_case.batch,
                                              bench_case.prompt_tokens(), bench_case.new_tokens);
    work["decode_step"] = work_fields(step);
    add_limit(record, "tpot", limit_of({step.flops(), step.bytes()}, facts.ceilings), metric("tpot_ms"));
    const double copy_gb_s = facts.ceilings.copy_gb_s.best;
    if (const auto tpot_ms = metric("tpot_ms"); tpot_ms && *tpot_ms > 0) {
      const double rate = step.bytes() / (*tpot_ms * 1e6);
      record.metrics["decode_gb_s"] = rate;
      if (copy_gb_s > 0) {
        record.metrics["copy_gb_s"] = copy_gb_s;
        record.metrics["decode_share_of_copy"] = rate / copy_gb_s;
      }
    }
  }
  record.extra["work"] = work;
}

void add_sensors(ResultRecord& record, const ModeResult& mode, const BenchCase& bench_case,
                 const RunFacts& facts) {
  if (facts.sensors == nullptr) {
    record.metrics["energy_per_token_j"] = nullptr;
    record.extra["sensors"] = no_sensor_fields(facts.no_sensors);
    return;
  }
  const Sensors& sensors = facts.sensors->sensors();
  const SensorSummary summary = summary_of(mode.windows, sensors, facts.sensors->period_s());
  const double tokens = static_cast<double>(mode.windows.size()) * bench_case.batch *
                        static_cast<double>(bench_case.new_tokens);
  record.metrics["energy_per_token_j"] = summary.energy_j ? Value(*summary.energy_j / tokens) : Value();
  record.extra["sensors"] = sensor_fields(summary, sensors.info());
}

// How the products of the run so far are computed, where that was a matter of choice.
void add_products(ResultRecord& record, const Ops& ops) {
  Value::Array products;
  for (const ProductRecord& one : ops.product_choices()) {
    Fields fields{{"shape", one.shape}, {"algorithm", one.algorithm}, {"candidates", one.candidates}};
    if (one.chosen_us > 0) fields["chosen_us"] = one.chosen_us;
    if (one.first_us > 0) fields["first_us"] = one.first_us;
    if (!one.why_not_timed.empty()) fields["why_not_timed"] = one.why_not_timed;
    products.emplace_back(std::move(fields));
  }
  if (!products.empty()) record.extra["products"] = std::move(products);
}

void add_refusal(ResultRecord& record, const ModeResult& mode) {
  if (mode.failure_kind != ErrorKind::out_of_memory) return;
  record.metrics["bytes_asked"] = mode.refused ? Value(mode.refused->bytes) : Value();
  if (!mode.refused) return;
  record.metrics["bytes_asked_for"] = kMemoryUseNames.name(mode.refused->use);
  record.metrics["bytes_in_use"] = mode.refused->in_use;
}

// How far the ids of this mode's cold run agree with those of the first mode that ran.
void add_agreement(ResultRecord& record, const CaseResult& result, const ModeResult& mode) {
  record.metrics["ids_sha256"] = token_stream_sha256(mode.cold.ids.front());
  const auto first = std::find_if(result.modes.begin(), result.modes.end(),
                                  [](const ModeResult& other) { return other.ok(); });
  if (first == result.modes.end() || &*first == &mode || !mode.ok()) return;
  std::size_t equal = 0;
  std::size_t total = 0;
  for (std::size_t row = 0; row < mode.cold.ids.size(); ++row) {
    const auto& ours = mode.cold.ids[row];
    const auto& theirs = first->cold.ids[row];
    equal += static_cast<std::size_t>(std::mismatch(ours.begin(), ours.end(), theirs.begin()).first -
                                      ours.begin());
    total += ours.size();
  }
  record.metrics["agrees_with"] = first->mode;
  record.metrics["equal_leading_tokens"] = equal;
  record.metrics["compared_tokens"] = total;
}

std::string shown(const ResultRecord& record, std::string_view key, const char* unit, int digits) {
  const Value* value = record.metrics.find(key);
  if (value == nullptr || !value->number()) return "-";
  return fmt::format("{:.{}f} {}", *value->number(), digits, unit);
}

std::string share(const ResultRecord& record, std::string_view key) {
  const Value* value = record.metrics.find(key);
  if (value == nullptr || !value->number()) return "-";
  return fmt::format("{:.1f} %", 100 * *value->number());
}

}  // namespace

ResultRecord make_record(const BenchOptions& options, const Platform& platform, const Model& model,
                         const BenchCase& bench_case, const CaseResult& result, const ModeResult& mode,
                         const RunFacts& facts) {
  ResultRecord record;
  record.app = "attnbench";
  record.time = utc_now();
  record.environment = facts.environment;
  record.parameters = parameter_fields(options, platform, model, bench_case, mode);
  set_outcome(record, result, mode);
  if (!mode.prefill_kernel.empty()) record.metrics["prefill_kernel"] = mode.prefill_kernel;
  if (!mode.decode_kernel.empty()) record.metrics["decode_kernel"] = mode.decode_kernel;
  if (mode.prefill) {
    record.metrics["prefill_launch"] = kPrefillLaunchNames.name(mode.prefill->launch);
    record.metrics["prefill_stream_ms"] = mode.prefill->stream_ms;
    record.metrics["prefill_graph_ms"] = mode.prefill->graph_ms;
  }
  if (const auto warning = context_warning(model.config, bench_case.shape().capacity))
    record.metrics["warning"] = *warning;
  record.extra["ceilings"] = ceiling_fields(facts.ceilings);
  if (!mode.failure.empty()) {
    add_refusal(record, mode);
    return record;
  }

  add_times(record, mode, bench_case);
  add_roofline(record, model, bench_case, facts);
  add_sensors(record, mode, bench_case, facts);
  add_products(record, *platform.ops);
  add_agreement(record, result, mode);
  record.metrics["peak_mem_mb"] =
      static_cast<double>(mode.memory.peak_bytes) / (1 << 20);  // MiB, as system B
  record.metrics["load_s"] = model.load.seconds;
  if (!model.load.random && model.load.seconds > 0)
    record.metrics["load_gb_s"] = static_cast<double>(model.load.bytes_read) / (model.load.seconds * 1e9);
  record.memory = memory_fields(mode.memory);
  return record;
}

std::vector<std::string> table_header() {
  return {"mode",     "model", "B",        "prompt",     "new",         "TTFT",
          "of limit", "TPOT",  "of limit", "throughput", "peak memory", "outcome"};
}

std::vector<std::string> table_row(const ResultRecord& record) {
  const auto parameter = [&](std::string_view key) { return display(*record.parameters.find(key)); };
  return {parameter("mode"),
          parameter("model"),
          parameter("batch_size"),
          parameter("prompt_tokens"),
          parameter("new_tokens"),
          shown(record, "ttft_ms", "ms", 3),
          share(record, "ttft_share_of_limit"),
          shown(record, "tpot_ms", "ms", 3),
          share(record, "tpot_share_of_limit"),
          shown(record, "throughput_tps", "tok/s", 1),
          shown(record, "peak_mem_mb", "MiB", 2),
          std::string(kOutcomes.name(record.outcome))};
}

}  // namespace attn
