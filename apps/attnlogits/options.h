// What a user asks of attnlogits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/shared_options.h"

namespace attn {

// Each applies to every pair that is compared; one that is exceeded makes the exit code 1.
struct LogitsThresholds {
  std::optional<double> max_diff, mean_diff, max_kl;  // at most
  std::optional<double> min_agreement;  // at least; share of positions with the same argmax, 0 ... 1
};

struct LogitsOptions {
  ModelOptions model;
  std::vector<std::string> prompts;       // texts or files
  std::vector<std::string> prompt_files;  // each with many prompts, one a line
  std::vector<std::string> ids;           // each a prompt: "1,2,3"
  std::string long_prompt;                // a file; empty: the bundled one where the default prompts are used
  int max_length = 128;                   // of text prompts, tokens; 0: all
  std::vector<std::string> modes{"baseline", "flash"};
  std::string path = "prefill";
  bool without_reference = false;  // else it is compared with where the device has it, asked for or not
  std::string format = "table";    // what is printed: table, or json: one JSON array and nothing else
  LogitsThresholds thresholds;
  std::string dump;                // a file
  std::string positions = "last";  // of the dump: last, all, or "0,5,7"
  bool positions_given = false;
  std::string out = "results";
  std::vector<std::string> argv;
};

void add_logits_options(CLI::App& app, LogitsOptions& options);
std::string logits_help();
// Throws Error{usage} for values that do not fit together.
void check(const LogitsOptions& options);

}  // namespace attn
