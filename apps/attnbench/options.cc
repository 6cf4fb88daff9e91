// attnbench's command line.
#include "apps/attnbench/options.h"

#include <CLI/CLI.hpp>

#include "lib/core/error.h"
#include "lib/measure/token_times.h"

namespace attn {

std::string metric_help() {
  std::string text = "Definitions:\n";
  for (const MetricDefinition& metric : token_metric_definitions())
    text += fmt::format("  {:<12} {} [{}]\n", metric.name, metric.formula, metric.unit);
  return text;
}

void add_bench_options(CLI::App& app, BenchOptions& options) {
  add_model_options(app, options.model);
  as_list(app.add_option("--mode", options.modes, "baseline, flash, reference; measured in turns"))
      ->capture_default_str();
  as_list(app.add_option("--prompt", options.prompts, "Prompt files (default: the bundled short prompt)"));
  app.add_flag("--long-prompt", options.long_prompt, "Use the long prompt");
  app.add_option("--long-prompt-path", options.long_prompt_path,
                 "The long prompt's file (default: the bundled one)");
  as_list(app.add_option("--prompt-tokens", options.prompt_tokens,
                         "Prompts of exactly these lengths, of ids drawn from the seed, instead of a text"));
  app.add_option("--max-prompt-tokens", options.max_prompt_tokens, "Cut text prompts to this many tokens")
      ->check(CLI::PositiveNumber);
  as_list(app.add_option("--new-tokens,--new-token-sizes", options.new_tokens,
                         "New tokens a sequence; no end-of-sequence id stops them"));
  app.add_option("--max-new-tokens", options.max_new_tokens, "New tokens where --new-tokens is not given")
      ->capture_default_str();
  as_list(app.add_option("--batch-sizes,--batch-size", options.batch_sizes,
                         "Sequences, each with the same prompt"))
      ->capture_default_str();
  app.add_option("--warmup,--warmup-iters", options.warmup,
                 "Rounds that are thrown away (the cold run comes before)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--reps", options.reps, "Timed repetitions of each mode")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--temperature", options.sampling.temperature, "0: greedy")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-k", options.sampling.top_k, "Sample among this many likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", options.sampling.top_p,
                 "Sample among the likeliest tokens of this total probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--out", options.out,
                 "Folder (attnbench.jsonl in it is appended to), FILE.jsonl (appended to) or FILE.json (one "
                 "document)")
      ->capture_default_str();
  app.add_flag("--print-text", options.print_text, "Print what each mode generated");
  app.add_flag("--strict-context", options.strict_context,
               "Going past the model's trained context is an error, not a warning");
  app.add_flag("--list-models", options.list_models, "List bundled, found and preset models");
  app.add_flag("--list-kernels", options.list_kernels, "List the attention kernels of the device");
  app.add_flag("--inspect", options.inspect, "List the checkpoint's tensors: used, unused, missing, aliased");
  app.add_flag("--dry-run", options.dry_run, "List the cases and the memory they will take; measure nothing");
  app.add_flag(
      "--pretty", [](std::int64_t) {},
      "Accepted for other tools' command lines; the table is always printed");
}

namespace {

void check_positive(const std::vector<int>& values, const char* flag) {
  if (values.empty()) fail(ErrorKind::usage, "{} needs a value", flag);
  for (const int value : values) {
    if (value < 1) fail(ErrorKind::usage, "{} must be at least 1, not {}", flag, value);
  }
}

}  // namespace

std::vector<int> new_token_sizes(const BenchOptions& options) {
  return options.new_tokens.empty() ? std::vector<int>{options.max_new_tokens} : options.new_tokens;
}

void check(const BenchOptions& options) {
  check_modes(options.modes);
  check_positive(new_token_sizes(options), "--new-tokens");
  check_positive(options.batch_sizes, "--batch-sizes");
  for (const int tokens : options.prompt_tokens) {
    if (tokens < 1) fail(ErrorKind::usage, "--prompt-tokens must be at least 1, not {}", tokens);
  }
  if (!options.prompt_tokens.empty()) {
    if (options.long_prompt || !options.prompts.empty())
      fail(ErrorKind::usage,
           "--prompt-tokens draws ids and --prompt or --long-prompt reads a text: give one of them");
    if (options.max_prompt_tokens)
      fail(ErrorKind::usage,
           "--max-prompt-tokens cuts a text; --prompt-tokens already says the exact length");
  }
  if (options.sampling.temperature == 0 && (options.sampling.top_k != 0 || options.sampling.top_p != 1.0F))
    fail(ErrorKind::usage, "--top-k and --top-p need --temperature above 0; without it the choice is greedy");
  if (options.sampling.top_p <= 0) fail(ErrorKind::usage, "--top-p must be above 0");
}

}  // namespace attn
