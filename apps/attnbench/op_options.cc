// The command line of `attnbench op`.
#include <CLI/CLI.hpp>

#include "apps/attnbench/options.h"
#include "lib/core/error.h"

namespace attn {

void add_op_options(CLI::App& app, OpOptions& options) {
  as_list(app.add_option("--mode", options.modes, "baseline, flash, reference; measured in turns"))
      ->capture_default_str();
  as_list(app.add_option("--batch,--batch-sizes", options.batch, "Sequences"))->capture_default_str();
  as_list(app.add_option("--q-heads,--heads", options.q_heads, "Query heads"))->capture_default_str();
  as_list(
      app.add_option("--kv-heads", options.kv_heads, "Key and value heads (default: as the query heads)"));
  as_list(app.add_option("--q-len", options.q_len, "Queries a sequence; 1 is a decode step"))
      ->capture_default_str();
  as_list(app.add_option("--kv-len", options.kv_len, "Keys a sequence (default: as the queries)"));
  as_list(app.add_option("--head-dim", options.head_dim, "Dimensions of a head"))->capture_default_str();
  app.add_flag("--causal,!--no-causal", options.causal, "Query i sees key j <= i + kv_len - q_len (default)");
  app.add_option("--device", options.device, "cpu, cuda, cuda:N, or auto")->capture_default_str();
  app.add_option("--dtype", options.dtype, "f32, f16, bf16, or auto (f32 on the CPU, bf16 on a GPU)")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: every core this process may use")
      ->check(CLI::NonNegativeNumber);
  add_baseline_scores(app, options.baseline_scores);
  app.add_option("--warmup", options.warmup, "Rounds that are thrown away")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--reps", options.reps, "Timed repetitions of each mode")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Seed of the random queries, keys and values")
      ->capture_default_str();
  app.add_option("--out", options.out, "Folder, FILE.jsonl or FILE.json, as for attnbench")
      ->capture_default_str();
}

void check(const OpOptions& options) {
  check_modes(options.modes);
  for (const auto* list : {&options.batch, &options.q_heads, &options.q_len, &options.head_dim}) {
    if (list->empty()) fail(ErrorKind::usage, "attnbench op: a list of sizes is empty");
  }
}

}  // namespace attn
