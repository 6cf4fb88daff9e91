// The mapping between our parameters and system B's keys.
#include "lib/results/system_b.h"

#include <algorithm>
#include <string_view>

namespace attn {
namespace {

Value value_of(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  return value ? *value : Value();
}

// benchmark.py reads FLASH_SDPA from the environment: "1" selects flash attention.
Value flash_sdpa(const Fields& parameters) {
  return display(value_of(parameters, "mode")) == "flash" ? Value("1") : Value();
}

// The distinct values of one parameter over all records, in order of appearance.
Value::Array distinct(std::span<const ResultRecord> records, std::string_view key) {
  Value::Array values;
  for (const auto& record : records) {
    Value value = value_of(record.parameters, key);
    const auto same = [&](const Value& other) { return display(other) == display(value); };
    if (!value.is_null() && std::none_of(values.begin(), values.end(), same))
      values.push_back(std::move(value));
  }
  return values;
}

// One value as it is, several as a list, none as null.
Value one_or_list(Value::Array values) {
  if (values.empty()) return {};
  if (values.size() == 1) return values.front();
  return values;
}

ResultRecord benchmark_record(const Fields& object, const Fields& config, const std::string& source) {
  ResultRecord record;
  record.app = "benchmark";
  record.source = source;
  Fields& parameters = record.parameters;
  const auto parameter = [&](std::string_view ours, std::string_view theirs) {
    Value value = value_of(object, theirs);
    if (value.is_null()) value = value_of(config, theirs);  // its first version kept max_new_tokens in config
    if (!value.is_null()) parameters[ours] = std::move(value);
  };
  parameter("model", "model_name");
  parameter("device", "device");
  parameter("batch_size", "batch_size");
  parameter("prompt_tokens", "prompt_seq_len");
  parameter("new_tokens", "max_new_tokens");
  parameter("prompt", "prompt_path");
  parameter("max_prompt_tokens", "max_prompt_tokens");
  parameter("mode", "mode");
  for (const std::string_view key : {"ttft_ms", "tpot_ms", "throughput_tps", "peak_mem_mb"}) {
    record.metrics[key] = value_of(object, key);
  }
  return record;
}

std::vector<ResultRecord> perplexity_records(const Fields& object, const std::string& source) {
  std::vector<ResultRecord> records;
  for (const std::string_view mode : {"baseline", "flash"}) {
    const Value* value = object.find(mode);
    const Fields* result = value ? value->fields() : nullptr;
    if (!result) continue;
    ResultRecord record;
    record.app = "compute_ppl";
    record.source = source;
    record.parameters["model"] = value_of(object, "model_name");
    record.parameters["dataset"] = value_of(object, "dataset");
    for (const std::string_view key : {"num_samples", "num_tokens", "seq_len"}) {
      if (const Value* count = result->find(key)) record.parameters[key] = *count;
    }
    record.parameters["mode"] = mode;
    record.metrics["perplexity"] = value_of(*result, "ppl");
    record.metrics["log_perplexity"] = value_of(*result, "avg_loss");
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

void add_system_b_keys(Fields& object, const ResultRecord& record) {
  const Fields& parameters = record.parameters;
  object["batch_size"] = value_of(parameters, "batch_size");
  object["max_new_tokens"] = value_of(parameters, "new_tokens");
  object["prompt_seq_len"] = value_of(parameters, "prompt_tokens");
  for (const std::string_view key : {"ttft_ms", "tpot_ms", "throughput_tps", "peak_mem_mb"}) {
    if (!object.find(key)) object[key] = Value();
  }
  object["config"] = Fields{{"mode", value_of(parameters, "mode")},
                            {"device", value_of(parameters, "device")},
                            {"model_name", value_of(parameters, "model")},
                            {"prompt_path", value_of(parameters, "prompt")},
                            {"max_prompt_tokens", value_of(parameters, "max_prompt_tokens")},
                            {"FLASH_SDPA", flash_sdpa(parameters)}};
}

Fields document_summary(std::span<const ResultRecord> records) {
  Value::Array apps;
  for (const auto& record : records) {
    const auto same = [&](const Value& app) { return display(app) == record.app; };
    if (std::none_of(apps.begin(), apps.end(), same)) apps.push_back(record.app);
  }
  Fields summary{{"schema", kResultSchema},
                 {"app", one_or_list(std::move(apps))},
                 {"mode", one_or_list(distinct(records, "mode"))},
                 {"model_name", one_or_list(distinct(records, "model"))},
                 {"device", one_or_list(distinct(records, "device"))}};
  Value::Array new_token_sizes = distinct(records, "new_tokens");
  if (new_token_sizes.empty()) return summary;
  summary["prompt_path"] = one_or_list(distinct(records, "prompt"));
  summary["prompt_seq_len"] = one_or_list(distinct(records, "prompt_tokens"));
  summary["max_prompt_tokens"] = one_or_list(distinct(records, "max_prompt_tokens"));
  summary["batch_sizes"] = distinct(records, "batch_size");
  summary["new_token_sizes"] = std::move(new_token_sizes);
  summary["warmup_iters"] = one_or_list(distinct(records, "warmup"));
  summary["FLASH_SDPA"] = records.size() == 1 ? flash_sdpa(records.front().parameters) : Value();
  return summary;
}

std::optional<std::vector<ResultRecord>> system_b_records(const Fields& object, const std::string& source) {
  if (object.find("schema") || object.find("parameters")) return std::nullopt;
  const Value* config = object.find("config");
  if (config && config->fields() && object.find("ttft_ms")) {
    return std::vector{benchmark_record(object, *config->fields(), source)};
  }
  if (object.find("dataset") && (object.find("baseline") || object.find("flash"))) {
    return perplexity_records(object, source);
  }
  return std::nullopt;
}

}  // namespace attn
