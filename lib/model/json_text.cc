// JSON objects of config.json, of safetensors headers and of their index.
#include "lib/model/json_text.h"

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"

namespace attn {

nlohmann::json parse_json_object(std::string_view text, std::string_view where) {
  using nlohmann::json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto refuse_twice = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail(ErrorKind::bad_input, "{}: the key '{}' is given twice", where, value.get<std::string>());
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text.begin(), text.end(), refuse_twice);
  } catch (const json::exception& error) {
    fail(ErrorKind::bad_input, "{}: not valid JSON: {}", where, error.what());
  }
  if (!parsed.is_object()) fail(ErrorKind::bad_input, "{}: expected a JSON object", where);
  return parsed;
}

}  // namespace attn
