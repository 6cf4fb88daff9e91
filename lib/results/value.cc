// Fields, and Value to and from JSON text.
#include "lib/results/value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lib/core/error.h"

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 100;  // of nested arrays and objects in a file

Json json_from(const Value& value, const std::string& key) {
  struct Visitor {
    const std::string& key;
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool x) const { return x; }
    Json operator()(std::int64_t x) const { return x; }
    Json operator()(double x) const {
      if (!std::isfinite(x)) fail(ErrorKind::internal, "the value of '{}' in a result record is {}", key, x);
      return x;
    }
    Json operator()(const std::string& x) const { return x; }
    Json operator()(const Value::Array& x) const {
      Json array = Json::array();
      for (const auto& item : x) array.push_back(json_from(item, key));
      return array;
    }
    Json operator()(const Fields& x) const {
      Json object = Json::object();
      for (const auto& [name, item] : x.entries) {
        object[name] = json_from(item, key.empty() ? name : key + "." + name);
      }
      return object;
    }
  };
  return std::visit(Visitor{key}, value.data);
}

Value value_from(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: return json.get<std::uint64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return json.get<std::string>();
    case Json::value_t::array: {
      Value::Array array;
      for (const auto& item : json) array.push_back(value_from(item));
      return array;
    }
    case Json::value_t::object: {
      Fields fields;
      for (const auto& [key, item] : json.items()) fields.entries.push_back({key, value_from(item)});
      return fields;
    }
    default: return {};
  }
}

// Outside strings: the non-finite literals of other writers become null, and the depth is checked before
// anything recursive walks the value.
std::string strict_json(std::string_view text, std::string_view source) {
  std::string strict;
  strict.reserve(text.size());
  bool in_string = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      strict.append(text.substr(i, 2));
      i += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (!in_string) {
      if ((c == '[' || c == '{') && ++depth > kMaxDepth) {
        fail(ErrorKind::bad_input, "{}: nested more than {} deep", source, kMaxDepth);
      }
      if (c == ']' || c == '}') --depth;
      bool replaced = false;
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (text.substr(i, word.size()) == word) {
          strict += "null";
          i += word.size();
          replaced = true;
          break;
        }
      }
      if (replaced) continue;
    }
    strict += c;
    ++i;
  }
  return strict;
}

}  // namespace

Fields::Fields() = default;
Fields::Fields(const Fields& other) = default;
Fields::Fields(Fields&& other) noexcept = default;
Fields& Fields::operator=(const Fields& other) = default;
Fields& Fields::operator=(Fields&& other) noexcept = default;
Fields::~Fields() = default;

Fields::Fields(std::initializer_list<Field> list) {
  for (const auto& field : list) (*this)[field.key] = field.value;
}

Value& Fields::operator[](std::string_view key) {
  for (auto& field : entries) {
    if (field.key == key) return field.value;
  }
  entries.push_back({std::string(key), {}});
  return entries.back().value;
}

const Value* Fields::find(std::string_view key) const {
  for (const auto& field : entries) {
    if (field.key == key) return &field.value;
  }
  return nullptr;
}

bool Fields::empty() const { return entries.empty(); }

void Fields::erase(std::string_view key) {
  entries.erase(
      std::remove_if(entries.begin(), entries.end(), [&](const Field& field) { return field.key == key; }),
      entries.end());
}

std::optional<double> Value::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&data)) return *real;
  return std::nullopt;
}

std::string to_json(const Value& value) {
  return json_from(value, "").dump(-1, ' ', false, Json::error_handler_t::replace);
}

Value parse_json(std::string_view text, std::string_view source) {
  try {
    return value_from(Json::parse(strict_json(text, source)));
  } catch (const Json::exception& error) {
    std::string_view what = error.what();
    if (const auto end_of_id = what.find("] "); end_of_id != std::string_view::npos)
      what.remove_prefix(end_of_id + 2);
    fail(ErrorKind::bad_input, "{}: not JSON: {}", source, what);
  }
}

std::string display(const Value& value) {
  if (value.is_null()) return "";
  if (const auto* text = value.string()) return *text;
  if (const auto number = value.number()) return fmt::format("{}", *number);
  return to_json(value);
}

}  // namespace attn
