// Read, pair, compare, print.
#include "apps/summarize/run.h"

#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "apps/summarize/comparison.h"
#include "lib/results/pairing.h"
#include "lib/results/reader.h"
#include "lib/results/writer.h"

namespace attn {
namespace {

void note(const std::string& text) { fmt::print(stderr, "summarize: {}\n", text); }

// "attnbench demo, batch_size 1, ..., mode flash (results/x.jsonl:3)": enough to find the record.
std::string describe(const ResultRecord& record) {
  std::string text = record.app.empty() ? "record" : record.app;
  for (const std::string_view key :
       {"model", "dataset", "batch_size", "prompt_tokens", "new_tokens", "q_len", "mode"}) {
    const Value* value = record.parameters.find(key);
    if (value && !value->is_null()) text += fmt::format(" {}={}", key, display(*value));
  }
  return fmt::format("{} ({})", text, record.source);
}

// Several tables in one output: each under its title, with an empty line between. One table stands alone, so
// that spreadsheets and pandas read it as it is.
std::string format_all(const std::vector<TitledTable>& tables, TableFormat format) {
  if (tables.size() == 1) return format_table(tables.front().table, format);
  std::string text;
  for (const auto& [title, table] : tables) {
    if (!text.empty()) text += '\n';
    text += format == TableFormat::markdown ? fmt::format("## {}\n\n", title) : fmt::format("# {}\n", title);
    text += format_table(table, format);
  }
  return text;
}

}  // namespace

int run_summarize(const SummarizeOptions& options) {
  check_selection(options.metrics, options.tables);
  ReadResults results = read_results(options.paths);
  for (const auto& warning : results.warnings) note("warning: " + warning);

  const std::size_t all = results.records.size();
  std::erase_if(results.records, [](const ResultRecord& record) { return !is_compared_app(record.app); });
  if (const std::size_t left_out = all - results.records.size(); left_out > 0) {
    note(fmt::format("{} records of programs without figures by mode (attnlogits) were left out", left_out));
  }

  const Pairing pairing = pair_records(results.records, options.base_mode, options.other_mode);
  for (const auto& warning : pairing.warnings) note("warning: " + warning);
  for (const auto& [record, reason] : pairing.unpaired) {
    note(fmt::format("not paired: {}: {}", describe(*record), reason));
  }

  const Comparison comparison =
      compare(pairing.pairs, {options.base_mode, options.other_mode}, options.metrics, options.tables);
  const std::string text = format_all(comparison.tables, options.format);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!options.out.empty()) write_text(options.out, text);
  if (comparison.ratios > 0) return 0;
  note(fmt::format(
      "nothing comparable: {} records, {} pairs of {} and {} with equal settings, none with figures on "
      "both sides",
      all, pairing.pairs.size(), options.base_mode, options.other_mode));
  return kNothingComparable;
}

}  // namespace attn
