// JSON text of a file, parsed with messages that say where it is broken.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attn {

// One JSON object. Throws Error{bad_input} that begins with `where` for text that is not JSON, is not an
// object, or gives a key twice in one object (which value counts would be a guess).
nlohmann::json parse_json_object(std::string_view text, std::string_view where);

}  // namespace attn
