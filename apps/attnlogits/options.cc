// The command line of attnlogits.
#include "apps/attnlogits/options.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/attnlogits/dump.h"
#include "lib/core/error.h"
#include "lib/eval/final_states.h"

namespace attn {

std::string logits_help() {
  return "Every mode is compared with reference (attention by its definition, in double) and the modes with "
         "the first\n"
         "of them, over all positions of a prompt. max diff, mean diff: of the logits, absolute. KL: of the "
         "softmaxes,\n"
         "nats, KL(base || other). top 1: share of positions with the same largest logit; top 5: share of "
         "the five\n"
         "largest that are the same. Several prompts get a table of all positions, too.\n"
         "Exit codes: 0 ok, 1 a threshold was exceeded or a logit is not finite, 2 usage, 3 bad input, 4 "
         "unsupported,\n"
         "5 out of memory, 6 device, 7 internal error, 130 interrupted.";
}

void add_logits_options(CLI::App& app, LogitsOptions& options) {
  add_model_options(app, options.model);
  // One value each time: a text may hold commas, and ids do.
  app.add_option("--prompt", options.prompts,
                 "A text, or a file with one (repeatable; default: three short texts and the long prompt)")
      ->allow_extra_args(false);
  app.add_option("--prompts", options.prompt_files,
                 "A file of prompts, one a line; .jsonl: objects with a string \"text\"; .zst behind either "
                 "(repeatable)")
      ->allow_extra_args(false);
  app.add_option("--ids", options.ids, "A prompt as token ids: 1,2,3 (repeatable; needs no tokenizer)")
      ->allow_extra_args(false);
  app.add_option("--long-prompt", options.long_prompt,
                 "The file of the long prompt (default: the bundled one, where no other prompt is given)");
  app.add_option("--max-length", options.max_length, "Cut text prompts to this many tokens; 0: do not")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  as_list(app.add_option("--mode", options.modes, "baseline, flash, reference"))->capture_default_str();
  app.add_option(
         "--path", options.path,
         "prefill: the whole prompt in one call; decode: token by token over the cache, each mode compared "
         "with its own prefill too")
      ->capture_default_str()
      ->check(CLI::IsMember({"prefill", "decode"}));
  app.add_flag("--without-reference", options.without_reference,
               "Compare the modes with each other alone; reference takes time on long prompts");
  app.add_option("--format", options.format,
                 "What is printed: table, or json: an array with an object for each pair on each prompt")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json"}));
  LogitsThresholds& thresholds = options.thresholds;
  const char* const group = "Thresholds";
  app.add_option("--max-diff", thresholds.max_diff, "Largest difference of a logit that is still good")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--mean-diff", thresholds.mean_diff, "Largest mean difference that is still good")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--max-kl", thresholds.max_kl,
                 "Largest KL divergence of a position that is still good, nats")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--min-agreement", thresholds.min_agreement,
                 "Least share of equal argmax that is still good")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  app.add_option("--dump", options.dump, "Write logits as JSON to this file");
  app.add_option("--positions", options.positions, "Of the dump: last, all, or 0,5,7 (-1 is the last)")
      ->capture_default_str()
      ->each([&options](const std::string&) { options.positions_given = true; });
  app.add_option("--out", options.out,
                 "Folder (attnlogits.jsonl in it is appended to), FILE.jsonl (appended to) or FILE.json")
      ->capture_default_str();
}

void check(const LogitsOptions& options) {
  check_modes(options.modes);
  if (options.modes.empty()) fail(ErrorKind::usage, "--mode needs a value");
  if (options.positions_given && options.dump.empty())
    fail(ErrorKind::usage, "--positions chooses what --dump writes: give --dump FILE too");
  parse_positions(options.positions);
  kForwardPathNames.parse(options.path, "--path");
  const auto named = [&](const char* mode) {
    return std::find(options.modes.begin(), options.modes.end(), mode) != options.modes.end();
  };
  if (options.without_reference && named("reference"))
    fail(ErrorKind::usage, "--without-reference contradicts --mode reference");
  if (options.without_reference && options.modes.size() == 1 && options.path == "prefill") {
    fail(ErrorKind::usage,
         "--without-reference leaves one mode with nothing to compare with: name another in --mode");
  }
}

}  // namespace attn
