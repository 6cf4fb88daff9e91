// The command line of summarize.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/results/table.h"

namespace attn {

struct SummarizeOptions {
  std::vector<std::filesystem::path> paths;
  TableFormat format = TableFormat::tsv;
  std::filesystem::path out;         // empty: stdout only
  std::vector<std::string> metrics;  // empty: each table's own choice
  std::vector<std::string> tables;   // empty: all
  std::string base_mode = "baseline", other_mode = "flash";
};

// Nothing: go on. Else the exit code (0 after --help). Throws Error{usage}.
std::optional<int> parse_summarize_options(int argc, const char* const* argv, SummarizeOptions& options);

}  // namespace attn
