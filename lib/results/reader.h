// Reading result files: our own, and those of system B.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lib/results/record.h"

namespace attn {

struct ReadResults {
  std::vector<ResultRecord> records;
  std::vector<std::string> warnings;  // a torn last line, a file that holds no results
};

// Each path is a .jsonl file, a .json document ({"results": [...]}, an array, or one record), or a folder:
// all its
// *.json and *.jsonl in the order of their names, not its sub-folders. A record met twice, word for word,
// counts once. A torn last line is skipped with a warning. Throws Error{bad_input}, naming file and line, for
// a missing path, for broken JSON anywhere else, and for a named file without results (in a folder: a
// warning).
ReadResults read_results(std::span<const std::filesystem::path> paths);

}  // namespace attn
