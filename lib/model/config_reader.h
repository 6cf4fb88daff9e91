// ConfigReader: typed values of a config.json, with the key and the value in every complaint.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attn {

// A key may have several spellings: the first one that is there counts. null stands for "not there", as in
// Python. All throw Error{bad_input}: a value of another type than asked, and a missing value where it is
// required.
class ConfigReader {
 public:
  using Keys = std::initializer_list<const char*>;

  // `object` must be a JSON object and outlive the reader.
  ConfigReader(const nlohmann::json& object, std::string where)
      : object_(&object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool has(const char* key) const;
  bool is_filled(const char* key) const;  // there, and not an empty object, list or text

  int integer(Keys keys) const;
  std::optional<int> find_integer(Keys keys) const;
  std::optional<double> find_number(Keys keys) const;
  // Like find_number, but all spellings that are there must agree: none of them is known to win.
  std::optional<double> agreed_number(Keys keys) const;
  std::optional<std::string> find_text(Keys keys) const;
  bool flag(const char* key, bool otherwise) const;
  std::optional<ConfigReader> find_object(const char* key) const;
  std::vector<std::string> texts(const char* key) const;    // a list; empty when not there
  std::optional<int> first_integer(const char* key) const;  // a number, or the first of a list

 private:
  const nlohmann::json* find(Keys keys, const char** found) const;
  [[noreturn]] void wrong(const char* key, const char* expected) const;

  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace attn
