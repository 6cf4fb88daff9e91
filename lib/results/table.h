// A table of text cells, written in several formats.
#pragma once

#include <string>
#include <vector>

#include "lib/core/enum_names.h"

namespace attn {

// tsv: tab-separated, tabs and line ends inside cells become spaces. csv: RFC 4180. text: aligned for a
// terminal.
enum class TableFormat { tsv, markdown, csv, text };
inline constexpr auto kTableFormats = name_table<TableFormat>({{TableFormat::tsv, "tsv"},
                                                               {TableFormat::markdown, "markdown"},
                                                               {TableFormat::markdown, "md"},
                                                               {TableFormat::csv, "csv"},
                                                               {TableFormat::text, "text"}});

// An empty cell means missing. Rows shorter than the header are filled with empty cells.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// Ends with a line end. Throws Error{internal} if a row is longer than the header.
std::string format_table(const Table& table, TableFormat format);

}  // namespace attn
