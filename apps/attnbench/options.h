// What a user asks of attnbench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/shared_options.h"

namespace attn {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::string> modes{"baseline", "flash"};
  std::vector<std::string> prompts;  // files; none: prompts/short_prompt.txt
  bool long_prompt = false;
  std::string long_prompt_path;    // empty: prompts/long_prompt.txt
  std::vector<int> prompt_tokens;  // exact lengths of seeded random ids, instead of a text
  std::optional<int> max_prompt_tokens;
  std::vector<int> new_tokens;  // empty: max_new_tokens
  int max_new_tokens = 128;
  std::vector<int> batch_sizes{1};
  int warmup = 1;
  int reps = 5;
  SamplingConfig sampling;
  std::string out = "results";
  bool print_text = false;
  bool strict_context = false;
  bool list_models = false, list_kernels = false, dry_run = false, inspect = false;
  std::vector<std::string> argv;
};

// Attention alone: the product of all lists is measured.
struct OpOptions {
  std::vector<std::string> modes{"baseline", "flash"};
  std::vector<int> batch{1}, q_heads{12}, kv_heads, q_len{512}, kv_len,
      head_dim{64};  // empty: as the queries'
  bool causal = true;
  std::string device = "auto", dtype = "auto";
  int threads = 0;
  std::string baseline_scores = "dtype";  // as in ModelOptions
  int warmup = 1;
  int reps = 5;
  std::uint64_t seed = 0;
  std::string out = "results";
  std::vector<std::string> argv;
};

void add_bench_options(CLI::App& app, BenchOptions& options);
void add_op_options(CLI::App& app, OpOptions& options);
std::vector<int> new_token_sizes(const BenchOptions& options);
// What the parser cannot see: values that do not fit together. Throws Error{usage}.
void check(const BenchOptions& options);
void check(const OpOptions& options);

// The definitions of the metrics, for --help.
std::string metric_help();

}  // namespace attn
