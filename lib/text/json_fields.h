// JsonFields: one object of a JSON file whose every key must be asked for, so that none is passed over.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attn {

// Parses the whole text; Error{bad_input} with the source and the place.
nlohmann::json parse_json_text(std::string_view text, const std::string& source);

class JsonFields {
 public:
  // `where` is the object's path inside the file ("model", "pre_tokenizer.pretokenizers[0]").
  // Error{bad_input}: not an object. The object must outlive this.
  JsonFields(const nlohmann::json& object, std::string source, std::string where);

  // The value, or null if the key is missing or its value is null.
  const nlohmann::json* find(const char* key);
  // Error{bad_input}: missing, or of another type.
  const nlohmann::json& get(const char* key);
  std::string get_string(const char* key);
  bool get_bool(const char* key);
  bool get_bool(const char* key, bool default_value);
  std::int64_t get_int(const char* key);

  // Error{unsupported} unless the key is missing, null, or `harmless` (empty string, false, zero).
  void refuse(const char* key);
  // Error{unsupported} if the object has a key that was not asked for.
  void finish() const;

  // "pre_tokenizer.type" for messages.
  std::string path(std::string_view key) const;
  const std::string& source() const { return source_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string source_, where_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace attn
