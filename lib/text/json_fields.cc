// The checks that make a JSON object's reading strict.
#include "lib/text/json_fields.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"

namespace attn {

using nlohmann::json;

json parse_json_text(std::string_view text, const std::string& source) {
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "{}: is no valid JSON (damaged or cut off?): {}", source, e.what());
  }
}

JsonFields::JsonFields(const json& object, std::string source, std::string where)
    : object_(object), source_(std::move(source)), where_(std::move(where)) {
  if (!object_.is_object()) {
    fail(ErrorKind::bad_input, "{}: {} is not an object but {}", source_,
         where_.empty() ? "the file" : where_, object_.type_name());
  }
}

std::string JsonFields::path(std::string_view key) const {
  return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
}

const json* JsonFields::find(const char* key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json& JsonFields::get(const char* key) {
  const json* value = find(key);
  if (!value) fail(ErrorKind::bad_input, "{}: '{}' is missing", source_, path(key));
  return *value;
}

std::string JsonFields::get_string(const char* key) {
  const json& value = get(key);
  if (!value.is_string()) fail(ErrorKind::bad_input, "{}: '{}' is not a string", source_, path(key));
  return value.get<std::string>();
}

bool JsonFields::get_bool(const char* key) {
  const json& value = get(key);
  if (!value.is_boolean())
    fail(ErrorKind::bad_input, "{}: '{}' is neither true nor false", source_, path(key));
  return value.get<bool>();
}

bool JsonFields::get_bool(const char* key, bool default_value) {
  return find(key) ? get_bool(key) : default_value;
}

std::int64_t JsonFields::get_int(const char* key) {
  const json& value = get(key);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))) {
    fail(ErrorKind::bad_input, "{}: '{}' is not a whole number in range", source_, path(key));
  }
  return value.get<std::int64_t>();
}

void JsonFields::refuse(const char* key) {
  const json* value = find(key);
  if (!value || *value == json("") || *value == json(false) || (value->is_number() && *value == json(0)))
    return;
  fail(ErrorKind::unsupported, "{}: '{}' = {} is not supported", source_, path(key),
       value->dump().substr(0, 200));
}

void JsonFields::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (!asked_.contains(key)) fail(ErrorKind::unsupported, "{}: '{}' is not supported", source_, path(key));
  }
}

}  // namespace attn
