// attnbench from options to records.
#include "apps/attnbench/run.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "apps/attnbench/listings.h"
#include "apps/attnbench/record_case.h"
#include "apps/interrupt.h"
#include "apps/measure_ceilings.h"
#include "apps/progress.h"
#include "lib/model/inspect.h"
#include "lib/model/work.h"
#include "lib/results/environment.h"
#include "lib/results/table.h"
#include "lib/results/writer.h"

namespace attn {
namespace {

constexpr int kWrongFigureExitCode = 1;  // not finite, or faster than the device

int exit_code_of(const ModeResult& mode, const ResultRecord& record) {
  if (!mode.failure.empty()) return exit_code(mode.failure_kind);
  const bool wrong = record.outcome == Outcome::nonfinite || record.outcome == Outcome::error;
  return wrong ? kWrongFigureExitCode : 0;
}

std::unique_ptr<Tokenizer> tokenizer_of(const ModelSource& source) {
  if (!source.dir) return nullptr;
  for (const char* file : {"tokenizer.json", "vocab.json", "encoder.json"}) {
    if (std::filesystem::exists(*source.dir / file)) return load_tokenizer(*source.dir);
  }
  return nullptr;
}

void print_text(const BenchCase& bench_case, const CaseResult& result, const Tokenizer* tokenizer) {
  for (const ModeResult& mode : result.modes) {
    if (mode.cold.ids.empty()) continue;
    fmt::print("--- {} ({} tokens after {})\n", mode.mode, bench_case.new_tokens, bench_case.prompt.label);
    if (tokenizer != nullptr) {
      fmt::print("{}\n", tokenizer->decode(mode.cold.ids.front()));
    } else {
      fmt::print("{}\n", fmt::join(mode.cold.ids.front(), " "));
    }
  }
}

void print_load(const Model& model, const Platform& platform) {
  const LoadReport& load = model.load;
  const double mib = static_cast<double>(model.weights.bytes) / (1 << 20);
  if (load.random) {
    fmt::print("{}: random weights (seed {}), {:.1f} MiB in {:.2f} s\n", model.source.name, load.seed, mib,
               load.seconds);
  } else {
    fmt::print("{}: {} ({}), {:.1f} MiB in {:.3f} s, {:.2f} GB/s\n", model.source.name, model.source.how,
               model.source.dir->string(), mib, load.seconds,
               static_cast<double>(load.bytes_read) / (load.seconds * 1e9));
  }
  const DeviceInfo device = platform.device->info();
  fmt::print("{}: {}, {} threads\n", device.spec, device.description, device.threads);
}

// The table's lines appear as their cases end.
void print_row(const std::vector<std::string>& cells) {
  constexpr int kWidths[] = {9, 13, 3, 6, 5, 13, 8, 11, 8, 15, 12, 0};
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += fmt::format("{:<{}} ", cells[i], kWidths[i]);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// The most bytes that one step of any case moves: what the memory must be measured for.
double most_bytes(const std::vector<BenchCase>& cases, const ModelConfig& config, DType dtype) {
  double most = 0;
  for (const BenchCase& one : cases) {
    most = std::max(most, prefill_work(config, dtype, one.batch, one.prompt_tokens()).bytes());
    most = std::max(most, forward_work(config, dtype, one.batch, one.shape().capacity, 1).bytes());
  }
  return most;
}

// What the records of a model whose weights did not fit need to know of it.
Model unloaded_model(const BenchOptions& options, const ModelSource& source, const ModelConfig& config,
                     DType dtype) {
  Model model;
  model.source = source;
  model.config = config;
  model.weights.dtype = dtype;
  model.load.random = options.model.random_weights;
  return model;
}

// The records of one case, measured or failed. A figure above its limit has the ceilings measured once more,
// unless they were given: the machine may have been busy the first time.
std::vector<ResultRecord> records_of(const BenchOptions& options, Platform& platform, const Model& model,
                                     const BenchCase& bench_case, const CaseResult& result, RunFacts& facts,
                                     const std::function<Ceilings()>& measure_again) {
  std::vector<ResultRecord> records;
  for (const ModeResult& mode : result.modes) {
    ResultRecord record = make_record(options, platform, model, bench_case, result, mode, facts);
    if (record.outcome == Outcome::error && measure_again != nullptr) {
      facts.ceilings = fastest(facts.ceilings, measure_again());
      record = make_record(options, platform, model, bench_case, result, mode, facts);
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  check(options);
  if (options.list_models) {
    fmt::print("{}", list_models());
    return 0;
  }
  if (options.inspect) {
    fmt::print("{}", inspect_checkpoint(find_model(model_name(options.model))).text);
    return 0;
  }
  find_model(model_name(options.model));  // a wrong name is told before a device is opened
  Platform platform = open_platform(options.model);
  if (options.list_kernels) {
    fmt::print("{}", list_kernels(platform));
    return 0;
  }
  return run_bench(options, platform);
}

int run_bench(const BenchOptions& options, Platform& platform, const std::optional<Ceilings>& ceilings) {
  const ModelSource source = find_model(model_name(options.model));
  const ModelConfig config = source_config(source);
  const DType dtype = resolve_dtype(options.model.dtype, *platform.device);
  const auto tokenizer = tokenizer_of(source);
  const std::vector<BenchCase> cases =
      make_cases(options, make_prompts(options, tokenizer.get(), config), config);
  if (options.dry_run) {
    fmt::print("{}", list_cases(cases, options, platform, config, dtype));
    return 0;
  }

  ResultWriter writer(options.out, "attnbench.jsonl");
  catch_interrupts();
  Model model = unloaded_model(options, source, config, dtype);
  std::optional<CaseResult> does_not_fit;  // every case's result where the weights do not fit
  try {
    model = open_model(options.model, platform);
    print_load(model, platform);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    does_not_fit = failed_case(options, error);
  }
  const DeviceInfo device = platform.device->info();
  RunFacts facts;
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  SensorAccess access = platform.device->sensors();
  std::optional<SensorLog> sensors;
  if (access.sensors != nullptr) facts.sensors = &sensors.emplace(std::move(access.sensors));
  facts.no_sensors = access.why_not;
  std::function<Ceilings()> measure;
  if (ceilings) {
    facts.ceilings = *ceilings;
  } else if (!does_not_fit) {
    measure = [&, most = most_bytes(cases, config, dtype)] {
      return measure_ceilings(platform, dtype, most);
    };
    facts.ceilings = measure();
    fmt::print("{}\n", ceilings_text(facts.ceilings, dtype));
  }

  Progress progress(static_cast<double>(cases.size()) * runs_of_case(options));
  double done = 0;
  int worst = 0;
  print_row(table_header());
  for (const BenchCase& bench_case : cases) {
    if (const auto warning = context_warning(config, bench_case.shape().capacity)) {
      progress.clear();
      fmt::print(stderr, "attnbench: warning: {}\n", *warning);
    }
    const auto step = [&](const std::string& what) {
      progress.update(done, what);
      done += 1;
    };
    const CaseResult result = does_not_fit
                                  ? *does_not_fit
                                  : measure_case(platform, model, bench_case, options, facts.sensors, step);
    const std::vector<ResultRecord> records =
        records_of(options, platform, model, bench_case, result, facts, measure);
    progress.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      const ResultRecord& record = records[i];
      writer.append(record);
      print_row(table_row(record));
      if (!record.reason.empty())
        fmt::print(stderr, "attnbench: {}: {}\n", result.modes[i].mode, record.reason);
      if (worst == 0) worst = exit_code_of(result.modes[i], record);
    }
    if (options.print_text) print_text(bench_case, result, tokenizer.get());
    if (result.interrupted) {
      fmt::print(stderr, "attnbench: interrupted; {} is valid and holds every case up to here\n",
                 writer.path().string());
      return kInterruptedExitCode;
    }
  }
  fmt::print("Saved {}\n", writer.path().string());
  return worst;
}

}  // namespace attn
