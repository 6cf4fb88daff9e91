// libFuzzer: any bytes as a config.json give a valid config that can be described, or an Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/model/inspect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const attn::ModelConfig config = attn::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (config.parameter_count() <= 0 || !std::isfinite(config.attention_scale(config.layers - 1)))
      std::abort();
    if (attn::describe(config).empty()) std::abort();
  } catch (const attn::Error& error) {
    const bool allowed =
        error.kind() == attn::ErrorKind::bad_input || error.kind() == attn::ErrorKind::unsupported;
    if (!allowed) std::abort();
  }
  return 0;
}
