// Value, Fields: a JSON value whose objects keep the order of insertion. Cheap to include, unlike a JSON
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace attn {

struct Value;
struct Field;

// An object. Keys are unique: operator[] finds or appends.
struct Fields {
  std::vector<Field> entries;

  // All in value.cc: here Field is not complete yet.
  Fields();
  Fields(std::initializer_list<Field> list);
  Fields(const Fields& other);
  Fields(Fields&& other) noexcept;
  Fields& operator=(const Fields& other);
  Fields& operator=(Fields&& other) noexcept;
  ~Fields();
  Value& operator[](std::string_view key);
  const Value* find(std::string_view key) const;  // nullptr where there is no such key
  bool empty() const;
  void erase(std::string_view key);
};

struct Value {
  using Array = std::vector<Value>;
  // monostate is JSON's null.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Fields> data;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool value) : data(value) {}
  Value(double value) : data(value) {}
  Value(float value) : data(static_cast<double>(value)) {}
  Value(std::string value) : data(std::move(value)) {}
  Value(std::string_view value) : data(std::string(value)) {}
  Value(const char* value) : data(std::string(value)) {}
  Value(Fields value) : data(std::move(value)) {}
  Value(Array value) : data(std::move(value)) {}
  // Integers beyond int64 become decimal strings: JSON readers would round them.
  template <typename Int>
  requires(std::is_integral_v<Int> && !std::is_same_v<Int, bool>) Value(Int value) {
    if constexpr (std::is_unsigned_v<Int> && sizeof(Int) == 8) {
      if (value > static_cast<Int>(std::numeric_limits<std::int64_t>::max())) {
        data = std::to_string(value);
        return;
      }
    }
    data = static_cast<std::int64_t>(value);
  }
  template <typename T>
  Value(const std::optional<T>& value) {
    if (value) *this = Value(*value);
  }
  template <typename T>
  Value(const std::vector<T>& values) {
    Array array;
    array.reserve(values.size());
    for (const auto& value : values) array.emplace_back(value);
    data = std::move(array);
  }

  bool is_null() const { return std::holds_alternative<std::monostate>(data); }
  const std::string* string() const { return std::get_if<std::string>(&data); }
  const Array* array() const { return std::get_if<Array>(&data); }
  const Fields* fields() const { return std::get_if<Fields>(&data); }
  Fields* fields() { return std::get_if<Fields>(&data); }
  std::optional<double> number() const;  // of an integer or a double
};

struct Field {
  std::string key;
  Value value;
};

// One line of JSON, without a line end. Doubles in the shortest form that reads back the same; bytes that are
// not UTF-8 are replaced. Throws Error{internal}, naming the key, for a number that is not finite.
std::string to_json(const Value& value);

// Throws Error{bad_input} "`source`: ..." if the text is not JSON. NaN, Infinity and -Infinity, which some
// writers emit, are read as null.
Value parse_json(std::string_view text, std::string_view source);

// Short text for tables and messages: strings without quotes, numbers in shortest form (1 and 1.0 alike), the
// rest as JSON.
std::string display(const Value& value);

}  // namespace attn
