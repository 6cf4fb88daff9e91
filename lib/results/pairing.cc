// Records are grouped by a canonical text of their settings.
#include "lib/results/pairing.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

namespace attn {
namespace {

// Parameters that follow from the mode: the kernel rows that ran.
constexpr std::array<std::string_view, 4> kModeKeys{"mode", "kernel", "kernels", "attention_kernels"};
// Speeds across these are not comparable: part of the settings.
constexpr std::array<std::string_view, 4> kBuildKeys{"device", "compiler", "compiler_flags", "build_type"};
// Those that a peer does not have.
constexpr std::array<std::string_view, 3> kCompilerKeys{"compiler", "compiler_flags", "build_type"};
// Comparable with a grain of salt: a warning where they differ.
constexpr std::array<std::string_view, 8> kWarnKeys{"git_commit",    "git_dirty", "version", "cpu",
                                                    "logical_cores", "kernel",    "threads", "libraries"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Equal for equal values, whatever the order of an object's keys, and for 1 and 1.0.
std::string canonical(const Value& value) {
  if (const auto* array = value.array()) {
    std::string text = "[";
    for (const auto& item : *array) text += canonical(item) + ',';
    return text + ']';
  }
  const Fields* fields = value.fields();
  if (!fields) return display(value);
  std::map<std::string, std::string> sorted;
  for (const auto& [key, item] : fields->entries) sorted[key] = canonical(item);
  std::string text = "{";
  for (const auto& [key, item] : sorted) text += fmt::format("{}:{},", key, item);
  return text + '}';
}

// Setting -> canonical value; a null setting is a missing one.
using Settings = std::map<std::string, std::string>;

Settings settings_of(const ResultRecord& record) {
  Settings settings{{"app", record.app}};
  for (const auto& [key, value] : record.parameters.entries) {
    if (!contains(kModeKeys, key) && !value.is_null()) settings[key] = canonical(value);
  }
  for (const std::string_view key : kBuildKeys) {
    const Value* value = record.environment.find(key);
    if (value && !value->is_null()) settings[fmt::format("environment.{}", key)] = canonical(*value);
  }
  return settings;
}

std::string mode_of(const ResultRecord& record) {
  const Value* mode = record.parameters.find("mode");
  return mode ? display(*mode) : "";
}

// "batch_size (1, 8), new_tokens (128, missing)"; `count` is the number of settings that differ.
std::string differences(const Settings& a, const Settings& b, std::size_t& count) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a) keys.insert(key);
  for (const auto& [key, value] : b) keys.insert(key);
  const auto text = [](const Settings& settings, const std::string& key) {
    const auto at = settings.find(key);
    return at == settings.end() ? std::string("missing") : at->second;
  };
  std::string list;
  count = 0;
  for (const auto& key : keys) {
    const std::string left = text(a, key);
    const std::string right = text(b, key);
    if (left == right) continue;
    ++count;
    list += fmt::format("{}{} ({}, {})", list.empty() ? "" : ", ", key, left, right);
  }
  return list;
}

struct Entry {
  const ResultRecord* record;
  Settings settings;
  std::string mode;
};

// A peer (tools/peers) is another program, whose compiler nobody asks for: beside it ours tells nothing.
bool is_peer(const ResultRecord& record) { return record.environment.find("peer") != nullptr; }

// Where all records of one of the two modes are a peer's.
void forget_compilers_beside_peers(std::vector<Entry>& entries, std::string_view base_mode,
                                   std::string_view other_mode) {
  const auto all_peers = [&](std::string_view mode) {
    return std::all_of(entries.begin(), entries.end(),
                       [&](const Entry& entry) { return entry.mode != mode || is_peer(*entry.record); });
  };
  if (!all_peers(base_mode) && !all_peers(other_mode)) return;
  for (Entry& entry : entries) {
    for (const std::string_view key : kCompilerKeys) entry.settings.erase(fmt::format("environment.{}", key));
  }
}

// Why `entry` has no partner among the records of `wanted` mode.
std::string reason_unpaired(const Entry& entry, std::span<const Entry> entries, std::string_view wanted) {
  const Entry* nearest = nullptr;
  std::string nearest_differences;
  std::size_t fewest = 0;
  for (const auto& candidate : entries) {
    if (candidate.mode != wanted || candidate.record->app != entry.record->app) continue;
    std::size_t count = 0;
    std::string list = differences(entry.settings, candidate.settings, count);
    if (nearest && count >= fewest) continue;
    nearest = &candidate;
    nearest_differences = std::move(list);
    fewest = count;
  }
  if (!nearest) return fmt::format("there is no {} record of {}", wanted, entry.record->app);
  return fmt::format("the nearest {} record ({}) differs in {}", wanted, nearest->record->source,
                     nearest_differences);
}

// One warning for each part of the environment that is not the same in all records of a pair.
void warn_of_environments(const RecordPair& pair, std::vector<std::string>& warnings) {
  std::vector<const ResultRecord*> all = pair.base;
  all.insert(all.end(), pair.other.begin(), pair.other.end());
  std::vector<std::string_view> keys(kWarnKeys.begin(), kWarnKeys.end());
  keys.insert(keys.end(), kCompilerKeys.begin(), kCompilerKeys.end());  // can differ beside a peer
  for (const std::string_view key : keys) {
    std::map<std::string, std::string> values;  // value -> the first record with it
    for (const ResultRecord* record : all) {
      if (is_peer(*record) && contains(kCompilerKeys, key)) continue;
      const Value* value = record->environment.find(key);
      values.emplace(value ? canonical(*value) : "missing", record->source);
    }
    if (values.size() < 2) continue;
    std::string list;
    for (const auto& [value, source] : values)
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", value, source);
    std::string warning = fmt::format("compared although environment.{} differs: {}", key, list);
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
      warnings.push_back(std::move(warning));
  }
  for (const ResultRecord* record : all) {
    const Value* value = record->environment.find("build_warning");
    if (value) warnings.push_back(fmt::format("{}: {}", record->source, display(*value)));
  }
}

}  // namespace

Pairing pair_records(std::span<const ResultRecord> records, std::string_view base_mode,
                     std::string_view other_mode) {
  std::vector<Entry> entries;
  for (const auto& record : records) entries.push_back({&record, settings_of(record), mode_of(record)});
  forget_compilers_beside_peers(entries, base_mode, other_mode);

  struct Group {
    std::vector<const Entry*> base, other;
  };
  std::map<Settings, std::size_t> index;
  std::vector<Group> groups;  // in order of appearance
  Pairing pairing;
  for (const auto& entry : entries) {
    if (entry.mode != base_mode && entry.mode != other_mode) {
      const std::string what = entry.mode.empty() ? "it names no mode" : fmt::format("mode '{}'", entry.mode);
      pairing.unpaired.push_back(
          {entry.record, fmt::format("{}; {} and {} are compared", what, base_mode, other_mode)});
      continue;
    }
    const auto [at, is_new] = index.emplace(entry.settings, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[at->second];
    (entry.mode == base_mode ? group.base : group.other).push_back(&entry);
  }

  for (const auto& group : groups) {
    if (group.base.empty() || group.other.empty()) {
      for (const Entry* entry : group.base) {
        pairing.unpaired.push_back({entry->record, reason_unpaired(*entry, entries, other_mode)});
      }
      for (const Entry* entry : group.other) {
        pairing.unpaired.push_back({entry->record, reason_unpaired(*entry, entries, base_mode)});
      }
      continue;
    }
    RecordPair pair;
    pair.app = group.base.front()->record->app;
    pair.parameters = group.base.front()->record->parameters;
    for (const std::string_view key : kModeKeys) pair.parameters.erase(key);
    for (const Entry* entry : group.base) pair.base.push_back(entry->record);
    for (const Entry* entry : group.other) pair.other.push_back(entry->record);
    warn_of_environments(pair, pairing.warnings);
    pairing.pairs.push_back(std::move(pair));
  }
  return pairing;
}

}  // namespace attn
