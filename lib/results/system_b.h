// The result files of "system B", the PyTorch programs whose numbers ours must be comparable with
// (benchmark.py and compute_ppl.py of github.com/dzx0902/CS3602-FinalWork).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/results/record.h"

namespace attn {

// Adds benchmark.py's keys to one of our records' objects.
void add_system_b_keys(Fields& object, const ResultRecord& record);

// The "summary" of a document of our records: benchmark.py's keys where they apply.
Fields document_summary(std::span<const ResultRecord> records);

// The records of an object that system B wrote: one case of benchmark.py (app "benchmark"), or a perplexity
// file (app "compute_ppl", one record a mode). Nothing if it is neither.
std::optional<std::vector<ResultRecord>> system_b_records(const Fields& object, const std::string& source);

}  // namespace attn
