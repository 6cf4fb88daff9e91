// Presets: configurations of published models, by name.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lib/model/config.h"

namespace attn {

struct Preset {
  std::string_view name;
  std::string_view hub_repository;  // where tools/fetch_model finds it
  ModelConfig config;
};

std::span<const Preset> presets();
std::optional<ModelConfig> find_preset(std::string_view name);  // accepts the names with "-deduped" too

}  // namespace attn
