// The layout of a record on disk, both ways.
#include "lib/results/record.h"

#include <array>

#include "lib/core/error.h"
#include "lib/results/system_b.h"

namespace attn {
namespace {

struct Section {
  std::string_view key;
  Fields ResultRecord::*fields;
};
constexpr std::array kSections{
    Section{"parameters", &ResultRecord::parameters},   Section{"memory", &ResultRecord::memory},
    Section{"statistics", &ResultRecord::statistics},   Section{"samples", &ResultRecord::samples},
    Section{"environment", &ResultRecord::environment},
};

void add_all(Fields& object, const Fields& more, const ResultRecord& record) {
  for (const auto& [key, value] : more.entries) {
    if (object.find(key)) fail(ErrorKind::internal, "a record of {} has the key '{}' twice", record.app, key);
    object.entries.push_back({key, value});
  }
}

std::string text_of(const Fields& object, std::string_view key) {
  const Value* value = object.find(key);
  return value ? display(*value) : "";
}

}  // namespace

Fields to_fields(const ResultRecord& record) {
  Fields object{{"schema", kResultSchema},
                {"app", record.app},
                {"time", record.time},
                {"outcome", kOutcomes.name(record.outcome)},
                {"reason", record.reason}};
  add_all(object, record.metrics, record);
  if (record.parameters.find("new_tokens")) add_system_b_keys(object, record);
  for (const auto& [key, fields] : kSections) {
    if (object.find(key)) fail(ErrorKind::internal, "'{}' is no name for a metric", key);
    if (!(record.*fields).empty()) object[key] = record.*fields;
  }
  add_all(object, record.extra, record);
  return object;
}

ResultRecord record_from(const Fields& object, std::string source) {
  ResultRecord record;
  record.source = std::move(source);
  if (const std::string schema = text_of(object, "schema"); !schema.empty() && schema != kResultSchema) {
    fail(ErrorKind::bad_input, "{}: schema '{}'; this program reads '{}'", record.source, schema,
         kResultSchema);
  }
  record.app = text_of(object, "app");
  record.time = text_of(object, "time");
  record.reason = text_of(object, "reason");
  if (const std::string outcome = text_of(object, "outcome"); !outcome.empty()) {
    record.outcome = kOutcomes.parse(outcome, record.source + ": outcome", ErrorKind::bad_input);
  }
  for (const auto& [key, fields] : kSections) {
    const Value* value = object.find(key);
    if (value && value->fields()) record.*fields = *value->fields();
  }
  for (const auto& [key, value] : object.entries) {
    bool known = key == "schema" || key == "app" || key == "time" || key == "outcome" || key == "reason";
    for (const auto& section : kSections) known = known || key == section.key;
    // Written by add_system_b_keys from the parameters.
    known =
        known || key == "batch_size" || key == "max_new_tokens" || key == "prompt_seq_len" || key == "config";
    if (known) continue;
    const bool scalar = !value.array() && !value.fields();
    (scalar ? record.metrics : record.extra)[key] = value;
  }
  return record;
}

}  // namespace attn
