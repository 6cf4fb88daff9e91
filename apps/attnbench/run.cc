// attnbench from options to records.
#include "apps/attnbench/run.h"

#include <cstdio>

#include <fmt/format.h>

#include "apps/attnbench/listings.h"
#include "apps/attnbench/record_case.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lib/measure/bandwidth.h"
#include "lib/model/inspect.h"
#include "lib/results/environment.h"
#include "lib/results/table.h"
#include "lib/results/writer.h"

namespace attn {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{256} << 20;
constexpr int kNonfiniteExitCode = 1;

int exit_code_of(const ModeResult& mode) {
  if (!mode.failure.empty()) return exit_code(mode.failure_kind);
  return mode.finite ? 0 : kNonfiniteExitCode;
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
  constexpr int kWidths[] = {9, 14, 3, 6, 5, 13, 13, 15, 14, 0};
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += fmt::format("{:<{}} ", cells[i], kWidths[i]);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

int run_bench(const BenchOptions& options) {
  check(options);
  if (options.list_models) {
    fmt::print("{}", list_models());
    return 0;
  }
  const ModelSource source = find_model(model_name(options.model));
  if (options.inspect) {
    fmt::print("{}", inspect_checkpoint(source).text);
    return 0;
  }
  Platform platform = open_platform(options.model);
  if (options.list_kernels) {
    fmt::print("{}", list_kernels(platform));
    return 0;
  }

  const ModelConfig config = source_config(source);
  const auto tokenizer = tokenizer_of(source);
  const std::vector<BenchCase> cases =
      make_cases(options, make_prompts(options, tokenizer.get(), config), config);
  if (options.dry_run) {
    fmt::print("{}", list_cases(cases, options, platform, config,
                                resolve_dtype(options.model.dtype, *platform.device)));
    return 0;
  }

  ResultWriter writer(options.out, "attnbench.jsonl");
  catch_interrupts();
  const Model model = open_model(options.model, platform);
  print_load(model, platform);
  const DeviceInfo device = platform.device->info();
  RunFacts facts;
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  facts.copy_gb_s = copy_gb_s(*platform.device, kCopyBytes, 5);

  Progress progress(static_cast<double>(cases.size()) * runs_of_case(options));
  double done = 0;
  int worst = 0;
  print_row(table_header());
  for (const BenchCase& bench_case : cases) {
    if (const auto warning = context_warning(config, bench_case.shape().capacity)) {
      progress.clear();
      fmt::print(stderr, "attnbench: warning: {}\n", *warning);
    }
    const CaseResult result =
        measure_case(platform, model, bench_case, options, [&](const std::string& what) {
          progress.update(done, what);
          done += 1;
        });
    progress.clear();
    for (const ModeResult& mode : result.modes) {
      const ResultRecord record = make_record(options, platform, model, bench_case, result, mode, facts);
      writer.append(record);
      print_row(table_row(record));
      if (!record.reason.empty()) fmt::print(stderr, "attnbench: {}: {}\n", mode.mode, record.reason);
      if (worst == 0) worst = exit_code_of(mode);
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
