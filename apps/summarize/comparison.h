// Pairs of records to tables of figures, speed-ups and differences.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/results/pairing.h"
#include "lib/results/table.h"

namespace attn {

struct ComparedModes {
  std::string base, other;
};

struct TitledTable {
  std::string title;
  Table table;
};

struct Comparison {
  std::vector<TitledTable> tables;  // those with at least one pair: "bench", "op", "perplexity"
  int ratios = 0;                   // how many speed-ups, savings and differences there are
};

// Per pair one row: the settings (the usual ones, and each other one in which pairs differ), for each metric
// the median of either side and what follows from it, the number of runs, and the outcomes if any is not ok.
// Then a row of geometric means of the ratios. Empty columns are left out. `metrics`, `tables`: empty means
// the usual ones.
Comparison compare(std::span<const RecordPair> pairs, const ComparedModes& modes,
                   std::span<const std::string> metrics, std::span<const std::string> tables);

// Throws Error{usage} for a metric or table that is not known.
void check_selection(std::span<const std::string> metrics, std::span<const std::string> tables);
std::string known_metrics();
std::string known_tables();
bool is_compared_app(std::string_view app);

}  // namespace attn
