// Values out of a JSON object.
#include "lib/model/config_reader.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"

namespace attn {

namespace {

std::optional<int> as_int(const nlohmann::json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();  // 2048.0 is a whole number too
  if (!(std::abs(number) <= std::numeric_limits<int>::max()) || number != std::floor(number))
    return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

const nlohmann::json* ConfigReader::find(Keys keys, const char** found) const {
  for (const char* key : keys) {
    const auto place = object_->find(key);
    if (place != object_->end() && !place->is_null()) {
      *found = key;
      return &*place;
    }
  }
  return nullptr;
}

void ConfigReader::wrong(const char* key, const char* expected) const {
  const nlohmann::json& value = object_->at(key);
  // A nested value is not printed: writing it out would recurse as deep as a hostile file likes.
  std::string shown = value.is_array() ? "a list"
                      : value.is_object()
                          ? "an object"
                          : value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
  fail(ErrorKind::bad_input, "{}: {} must be {}, but is {}", where_, key, expected, shown);
}

bool ConfigReader::has(const char* key) const {
  const char* found = nullptr;
  return find({key}, &found) != nullptr;
}

bool ConfigReader::is_filled(const char* key) const {
  const char* found = nullptr;
  const nlohmann::json* value = find({key}, &found);
  if (value == nullptr) return false;
  return value->is_string() ? !value->get_ref<const std::string&>().empty() : !value->empty();
}

int ConfigReader::integer(Keys keys) const {
  if (const auto value = find_integer(keys)) return *value;
  fail(ErrorKind::bad_input, "{}: {} is missing", where_, *keys.begin());
}

std::optional<int> ConfigReader::find_integer(Keys keys) const {
  const char* key = nullptr;
  const nlohmann::json* value = find(keys, &key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_int(*value);
  if (!number) wrong(key, "a whole number");
  return number;
}

std::optional<double> ConfigReader::find_number(Keys keys) const {
  const char* key = nullptr;
  const nlohmann::json* value = find(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong(key, "a number");
  return value->get<double>();
}

std::optional<double> ConfigReader::agreed_number(Keys keys) const {
  std::optional<double> agreed;
  const char* first = nullptr;
  for (const char* key : keys) {
    const auto value = find_number({key});
    if (!value) continue;
    if (agreed && *agreed != *value) {
      fail(ErrorKind::bad_input, "{}: {} is {} but {} is {}; they stand for the same value", where_, first,
           *agreed, key, *value);
    }
    if (!agreed) first = key;
    agreed = value;
  }
  return agreed;
}

std::optional<std::string> ConfigReader::find_text(Keys keys) const {
  const char* key = nullptr;
  const nlohmann::json* value = find(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(key, "a text");
  return value->get<std::string>();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const char* found = nullptr;
  const nlohmann::json* value = find({key}, &found);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

std::optional<ConfigReader> ConfigReader::find_object(const char* key) const {
  const char* found = nullptr;
  const nlohmann::json* value = find({key}, &found);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) wrong(key, "an object");
  return ConfigReader(*value, where_ + ": " + key);
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  const char* found = nullptr;
  const nlohmann::json* value = find({key}, &found);
  if (value == nullptr) return {};
  if (!value->is_array()) wrong(key, "a list of texts");
  std::vector<std::string> all;
  for (const auto& item : *value) {
    if (!item.is_string()) wrong(key, "a list of texts");
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::optional<int> ConfigReader::first_integer(const char* key) const {
  const char* found = nullptr;
  const nlohmann::json* value = find({key}, &found);
  if (value == nullptr || (value->is_array() && value->empty())) return std::nullopt;
  const auto number = as_int(value->is_array() ? value->front() : *value);
  if (!number) wrong(key, "a whole number or a list of them");
  return number;
}

}  // namespace attn
