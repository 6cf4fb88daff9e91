// The shared options on the command line, and opening what they name.
#include "apps/shared_options.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "lib/core/build_info.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

CLI::Option* as_list(CLI::Option* option) { return option->delimiter(',')->take_all(); }

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option(
         "--model", options.model,
         "A bundled model (demo), a preset (pythia-2.8b), a name in $ATTNBENCH_MODELS or the Hugging Face "
         "cache, or a folder")
      ->capture_default_str();
  app.add_option("--model-size", options.model_size,
                 "70m, 2.8b, ...: short for --model pythia-SIZE (7b: 6.9b)");
  app.add_flag("--random-weights", options.random_weights,
               "Draw the weights instead of reading a checkpoint: speed does not depend on trained values");
  app.add_option("--seed", options.seed, "Seed of random weights, random prompts and sampling")
      ->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda, cuda:N, or auto")->capture_default_str();
  app.add_option("--dtype", options.dtype, "f32, f16, bf16, or auto (f32 on the CPU, bf16 on a GPU)")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: every core this process may use")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  add_baseline_scores(app, options.baseline_scores);
}

void add_baseline_scores(CLI::App& app, std::string& scores) {
  app.add_option("--baseline-scores", scores,
                 "Element type of mode baseline's score matrix: dtype (that of --dtype) or f32; the kernel's "
                 "name in the record says it")
      ->capture_default_str();
}

std::string model_name(const ModelOptions& options) {
  if (options.model_size.empty()) return options.model;
  return "pythia-" + (options.model_size == "7b" ? "6.9b" : options.model_size);
}

DType resolve_dtype(std::string_view dtype, const Device& device) {
  if (dtype == "auto") return device.info().spec == "cpu" ? DType::f32 : DType::bf16;
  const DType parsed = kDTypeNames.parse(dtype, "--dtype");
  if (parsed == DType::i32)
    fail(ErrorKind::usage, "--dtype i32 is no type for a model; use f32, f16 or bf16");
  return parsed;
}

Platform open_platform(const ModelOptions& options) {
  return open_platform(options.device, {options.threads, kBaselineScoresNames.parse(options.baseline_scores,
                                                                                    "--baseline-scores")});
}

Model open_model(const ModelOptions& options, Platform& platform) {
  const ModelSource source = find_model(model_name(options));
  const DType dtype = resolve_dtype(options.dtype, *platform.device);
  if (dtype != DType::f32 && platform.device->info().spec == "cpu") {
    fail(ErrorKind::unsupported, "the CPU device computes in f32; use --dtype f32, or --device cuda for {}",
         kDTypeNames.name(dtype));
  }
  return options.random_weights ? random_model(*platform.device, source, dtype, options.seed)
                                : load_model(*platform.device, source, dtype);
}

void check_modes(const std::vector<std::string>& modes) {
  for (auto mode = modes.begin(); mode != modes.end(); ++mode) {
    if (*mode != "baseline" && *mode != "flash" && *mode != "reference")
      fail(ErrorKind::usage, "--mode '{}' is not known; it must be one of: baseline, flash, reference",
           *mode);
    if (std::find(modes.begin(), mode, *mode) != mode)
      fail(ErrorKind::usage, "--mode names '{}' twice", *mode);
  }
}

std::vector<std::string> arguments(int argc, const char* const* argv) { return {argv, argv + argc}; }

std::filesystem::path source_path(std::string_view relative) {
  return std::filesystem::path(build_info().source_tree) / relative;
}

}  // namespace attn
