// The formats of a table.
#include "lib/results/table.h"

#include <algorithm>
#include <string_view>

#include "lib/core/error.h"

namespace attn {
namespace {

using Row = std::vector<std::string>;

// Cells of one line cannot hold line ends (nor, in TSV, tabs).
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : one_line(text)) {
    if (c == '|' || c == '\\') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

template <typename CellFormat>
std::string joined(const Row& row, std::string_view separator, CellFormat format_cell) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line += separator;
    line += format_cell(row[i]);
  }
  return line;
}

// Code points, not bytes: enough to align the texts that occur here.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos;
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(one_line(row[i])));
  }
  // A column whose cells are all numbers stands on the right, with its header.
  std::vector<bool> right(widths.size(), rows.size() > 1);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (!rows[r][i].empty() && !is_number(rows[r][i])) right[i] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = one_line(row[i]);
      const std::string space(widths[i] - width(cell), ' ');
      if (i > 0) line += "  ";
      line += right[i] ? space + cell : cell + space;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace

std::string format_table(const Table& table, TableFormat format) {
  std::vector<Row> rows{table.header};
  for (Row row : table.rows) {
    if (row.size() > table.header.size()) {
      fail(ErrorKind::internal, "a table of {} columns has a row of {}", table.header.size(), row.size());
    }
    row.resize(table.header.size());
    rows.push_back(std::move(row));
  }
  if (format == TableFormat::text) return aligned(rows);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    switch (format) {
      case TableFormat::tsv: text += joined(rows[r], "\t", one_line) + '\n'; break;
      case TableFormat::csv: text += joined(rows[r], ",", csv_cell) + "\r\n"; break;
      default:
        text += fmt::format("| {} |\n", joined(rows[r], " | ", markdown_cell));
        if (r > 0) break;
        text += fmt::format("|{}\n", joined(rows[r], "", [](const std::string&) { return " --- |"; }));
    }
  }
  return text;
}

}  // namespace attn
