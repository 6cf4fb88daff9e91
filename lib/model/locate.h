// Where models are looked for on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/model.h"

namespace attn {

// An empty path stands for "no such place".
struct ModelPlaces {
  std::filesystem::path bundled;  // the checkout's models/
  std::filesystem::path own;      // $ATTNBENCH_MODELS
  std::filesystem::path hub;      // the Hugging Face cache: folders models--ORG--NAME
};

// hub: $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
ModelPlaces model_places();

// find_model() with places given.
ModelSource find_model_in(std::string_view name_or_dir, const ModelPlaces& places);

// All models with files on this machine, by place in the order of the search, then the presets without files.
std::vector<ModelSource> list_models(const ModelPlaces& places);

}  // namespace attn
