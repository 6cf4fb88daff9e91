// The tables that summarize knows, as data, and how a pair becomes a row.
#include "apps/summarize/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lib/core/error.h"
#include "lib/measure/statistics.h"

namespace attn {
namespace {

// What a pair of figures says. Speed-ups are above 1 where the other mode is better.
enum class Relation { lower_is_better, higher_is_better, memory, log_difference };

struct MetricRule {
  std::string_view name;   // key in the record, with its unit
  std::string_view label;  // the derived columns' first word
  Relation relation;
  bool usual;  // shown without --metric
};

struct TableRule {
  std::string_view name, title;
  std::vector<std::string_view> apps;      // ours, then system B's
  std::vector<std::string_view> settings;  // columns; others join where pairs differ in them
  std::vector<MetricRule> metrics;
};

const std::vector<TableRule>& table_rules() {
  using enum Relation;
  static const std::vector<TableRule> rules{
      {"bench",
       "Latency, throughput and memory",
       {"attnbench", "benchmark"},
       {"model", "device", "dtype", "batch_size", "prompt_tokens", "new_tokens"},
       {{"ttft_ms", "ttft", lower_is_better, true},
        {"tpot_ms", "tpot", lower_is_better, true},
        {"throughput_tps", "throughput", higher_is_better, true},
        {"peak_mem_mb", "peak_mem", memory, true},
        {"e2e_ms", "e2e", lower_is_better, false},
        {"output_tps", "output", higher_is_better, false},
        {"total_tps", "total", higher_is_better, false},
        {"prefill_tps", "prefill", higher_is_better, false},
        {"cold_ttft_ms", "cold_ttft", lower_is_better, false},
        {"decode_gb_s", "decode_gb_s", higher_is_better, false}}},
      {"op",
       "Attention alone",
       {"attnbench op"},
       {"device", "dtype", "batch", "q_heads", "kv_heads", "q_len", "kv_len", "head_dim", "causal"},
       {{"time_ms", "time", lower_is_better, true},
        {"tflops", "tflops", higher_is_better, true},
        {"gb_s", "gb_s", higher_is_better, true}}},
      {"perplexity",
       "Perplexity",
       {"attnppl", "compute_ppl"},
       {"model", "dataset", "protocol", "dtype", "context", "stride", "tokens_scored"},
       {{"perplexity", "log_perplexity", log_difference, true},
        {"peak_mem_mb", "peak_mem", memory, true},
        {"tokens_per_s", "tokens_per_s", higher_is_better, false}}},
  };
  return rules;
}

std::string number_text(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}g}", *value, digits) : "";
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *a <= 0 || *b <= 0) return std::nullopt;
  return *a / *b;
}

// Median over the repeated records that are ok and have the metric.
std::optional<double> figure(std::span<const ResultRecord* const> records, std::string_view metric) {
  std::vector<double> values;
  for (const ResultRecord* record : records) {
    const Value* value = record->metrics.find(metric);
    const auto number = value ? value->number() : std::nullopt;
    if (number && record->outcome == Outcome::ok) values.push_back(*number);
  }
  return median(values);
}

// "ok" if any run was; else how the first one ended.
std::string_view outcome_of(std::span<const ResultRecord* const> records) {
  for (const ResultRecord* record : records) {
    if (record->outcome == Outcome::ok) return kOutcomes.name(Outcome::ok);
  }
  return kOutcomes.name(records.front()->outcome);
}

std::string setting(const RecordPair& pair, std::string_view key) {
  if (key == "app") return pair.app;
  const Value* value = pair.parameters.find(key);
  if (!value && key == "tokens_scored") value = pair.base.front()->metrics.find(key);
  return value ? display(*value) : "";
}

bool is_hash(std::string_view key) { return key.ends_with("_sha256"); }

// The rule's columns, and any other setting in which the pairs of this table differ. A hash tells a reader
// nothing, so it joins only where rows would look alike without it.
std::vector<std::string> setting_columns(const TableRule& rule, std::span<const RecordPair* const> pairs) {
  std::vector<std::string> columns(rule.settings.begin(), rule.settings.end());
  const auto is_column = [&](const std::string& key) {
    return std::find(columns.begin(), columns.end(), key) != columns.end();
  };
  const auto differ = [](const RecordPair* a, const RecordPair* b, const std::string& key) {
    return setting(*a, key) != setting(*b, key);
  };
  const auto add_if_varied = [&](const std::string& key) {
    const auto differs = [&](const RecordPair* pair) { return differ(pair, pairs.front(), key); };
    if (!is_column(key) && std::any_of(pairs.begin(), pairs.end(), differs)) columns.push_back(key);
  };
  const auto add_if_alike = [&](const std::string& key) {
    const auto alike = [&](const RecordPair* a, const RecordPair* b) {
      return std::none_of(columns.begin(), columns.end(),
                          [&](const auto& column) { return differ(a, b, column); });
    };
    for (std::size_t i = 0; i < pairs.size() && !is_column(key); ++i) {
      const auto confused = [&](const RecordPair* pair) {
        return differ(pair, pairs[i], key) && alike(pair, pairs[i]);
      };
      if (std::any_of(pairs.begin(), pairs.end(), confused)) columns.push_back(key);
    }
  };
  add_if_varied("app");
  for (const bool hashes : {false, true}) {
    for (const RecordPair* pair : pairs) {
      for (const auto& field : pair->parameters.entries) {
        if (is_hash(field.key) != hashes) continue;
        if (hashes)
          add_if_alike(field.key);
        else
          add_if_varied(field.key);
      }
    }
  }
  return columns;
}

// One metric of one table: its columns are filled row by row.
class MetricColumns {
 public:
  MetricColumns(const MetricRule& rule, const ComparedModes& modes) : rule_(rule), modes_(modes) {}

  std::vector<std::string> header() const {
    std::vector<std::string> names{fmt::format("{}_{}", rule_.name, modes_.base),
                                   fmt::format("{}_{}", rule_.name, modes_.other)};
    switch (rule_.relation) {
      case Relation::memory:
        names.push_back(fmt::format("{}_saved_mb", rule_.label));
        names.push_back(fmt::format("{}_saved_percent", rule_.label));
        break;
      case Relation::log_difference: names.push_back(fmt::format("{}_diff", rule_.label)); break;
      default: names.push_back(fmt::format("{}_speedup", rule_.label));
    }
    return names;
  }

  std::vector<std::string> row(const RecordPair& pair) {
    const auto base = figure(pair.base, rule_.name);
    const auto other = figure(pair.other, rule_.name);
    std::vector<std::string> cells{number_text(base, 7), number_text(other, 7)};
    const auto better =
        rule_.relation == Relation::higher_is_better ? ratio(other, base) : ratio(base, other);
    if (better) ratios_.push_back(*better);
    switch (rule_.relation) {
      case Relation::memory:
        cells.push_back(better ? number_text(*base - *other, 7) : "");
        cells.push_back(saved_percent(better));
        break;
      case Relation::log_difference: {
        // ln(other) - ln(base): 0 where the modes agree.
        cells.push_back(better ? number_text(std::log(*other) - std::log(*base), 3) : "");
        break;
      }
      default: cells.push_back(number_text(better, 4));
    }
    return cells;
  }

  std::vector<std::string> geometric_means() const {
    const auto mean = geometric_mean(ratios_);
    switch (rule_.relation) {
      case Relation::memory: return {"", "", "", saved_percent(mean)};
      case Relation::log_difference: return {"", "", ""};
      default: return {"", "", number_text(mean, 4)};
    }
  }

  int ratio_count() const { return static_cast<int>(ratios_.size()); }
  bool has_mean() const { return rule_.relation != Relation::log_difference && !ratios_.empty(); }

 private:
  // base / other -> the part of base that other does not need.
  static std::string saved_percent(std::optional<double> base_by_other) {
    return base_by_other ? number_text(100 * (1 - 1 / *base_by_other), 4) : "";
  }

  MetricRule rule_;
  ComparedModes modes_;
  std::vector<double> ratios_;
};

void append(std::vector<std::string>& row, std::vector<std::string> cells) {
  row.insert(row.end(), std::make_move_iterator(cells.begin()), std::make_move_iterator(cells.end()));
}

void drop_empty_columns(Table& table) {
  for (std::size_t column = table.header.size(); column-- > 0;) {
    const auto is_empty = [&](const std::vector<std::string>& row) { return row[column].empty(); };
    if (!std::all_of(table.rows.begin(), table.rows.end(), is_empty)) continue;
    const auto at = static_cast<std::ptrdiff_t>(column);
    table.header.erase(table.header.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
}

bool selected(const MetricRule& metric, std::span<const std::string> metrics) {
  if (metrics.empty()) return metric.usual;
  return std::find(metrics.begin(), metrics.end(), metric.name) != metrics.end();
}

Table table_of(const TableRule& rule, std::span<const RecordPair* const> pairs, const ComparedModes& modes,
               std::span<const std::string> metrics, int& ratios) {
  Table table;
  table.header = setting_columns(rule, pairs);
  const std::vector<std::string> settings = table.header;
  std::vector<MetricColumns> columns;
  for (const auto& metric : rule.metrics) {
    if (selected(metric, metrics)) columns.emplace_back(metric, modes);
  }
  for (const auto& column : columns) append(table.header, column.header());
  append(table.header,
         {"runs_" + modes.base, "runs_" + modes.other, "outcome_" + modes.base, "outcome_" + modes.other});

  const auto failed = [](const RecordPair* pair) {
    return outcome_of(pair->base) != "ok" || outcome_of(pair->other) != "ok";
  };
  const bool show_outcomes = std::any_of(pairs.begin(), pairs.end(), failed);
  for (const RecordPair* pair : pairs) {
    std::vector<std::string> row;
    row.reserve(table.header.size());
    for (const auto& key : settings) row.push_back(setting(*pair, key));
    for (auto& column : columns) append(row, column.row(*pair));
    append(row, {std::to_string(pair->base.size()), std::to_string(pair->other.size())});
    append(row, show_outcomes
                    ? std::vector{std::string(outcome_of(pair->base)), std::string(outcome_of(pair->other))}
                    : std::vector<std::string>{"", ""});
    table.rows.push_back(std::move(row));
  }
  const auto has_mean = [](const MetricColumns& column) { return column.has_mean(); };
  if (std::any_of(columns.begin(), columns.end(), has_mean)) {
    std::vector<std::string> row(settings.size());
    row.front() = "geometric mean";
    for (const auto& column : columns) append(row, column.geometric_means());
    row.resize(table.header.size());
    table.rows.push_back(std::move(row));
  }
  for (const auto& column : columns) ratios += column.ratio_count();
  drop_empty_columns(table);
  return table;
}

template <typename Range>
bool contains(const Range& range, std::string_view name) {
  return std::find(range.begin(), range.end(), name) != range.end();
}

std::vector<std::string_view> metric_names() {
  std::vector<std::string_view> names;
  for (const auto& rule : table_rules()) {
    for (const auto& metric : rule.metrics) {
      if (!contains(names, metric.name)) names.push_back(metric.name);
    }
  }
  return names;
}

std::vector<std::string_view> table_names() {
  std::vector<std::string_view> names;
  for (const auto& rule : table_rules()) names.push_back(rule.name);
  return names;
}

}  // namespace

std::string known_metrics() { return fmt::format("{}", fmt::join(metric_names(), ", ")); }

std::string known_tables() { return fmt::format("{}", fmt::join(table_names(), ", ")); }

bool is_compared_app(std::string_view app) {
  const auto& rules = table_rules();
  return std::any_of(rules.begin(), rules.end(),
                     [&](const TableRule& rule) { return contains(rule.apps, app); });
}

void check_selection(std::span<const std::string> metrics, std::span<const std::string> tables) {
  for (const auto& metric : metrics) {
    if (!contains(metric_names(), metric)) {
      fail(ErrorKind::usage, "--metric '{}' is not known; it must be one of: {}", metric, known_metrics());
    }
  }
  for (const auto& table : tables) {
    if (!contains(table_names(), table)) {
      fail(ErrorKind::usage, "--table '{}' is not known; it must be one of: {}", table, known_tables());
    }
  }
}

Comparison compare(std::span<const RecordPair> pairs, const ComparedModes& modes,
                   std::span<const std::string> metrics, std::span<const std::string> tables) {
  Comparison comparison;
  for (const auto& rule : table_rules()) {
    if (!tables.empty() && !contains(tables, rule.name)) continue;
    std::vector<const RecordPair*> mine;
    for (const auto& pair : pairs) {
      if (contains(rule.apps, pair.app)) mine.push_back(&pair);
    }
    const auto shown = [&](const MetricRule& metric) { return selected(metric, metrics); };
    if (mine.empty() || std::none_of(rule.metrics.begin(), rule.metrics.end(), shown)) continue;
    Table table = table_of(rule, mine, modes, metrics, comparison.ratios);
    comparison.tables.push_back({std::string(rule.title), std::move(table)});
  }
  return comparison;
}

}  // namespace attn
