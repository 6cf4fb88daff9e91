// Model: where a model's name leads, its config, and its weights loaded or drawn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/config.h"
#include "lib/model/weights.h"

namespace attn {

// A name or folder as the user gave it, resolved. `dir` is absent for a preset without files on this machine.
struct ModelSource {
  std::string name;
  std::optional<std::filesystem::path> dir;
  std::string how;  // "bundled", "ATTNBENCH_MODELS", "Hugging Face cache", "folder", "preset"
};

// A folder with a config.json or tokenizer; a bundled model; $ATTNBENCH_MODELS/NAME; the Hugging Face cache
// (HF_HOME, HF_HUB_CACHE, its own layout of snapshots); a preset known by name. Throws Error{bad_input} that
// names tools/fetch_model and --random-weights, and lists the names close to it.
ModelSource find_model(std::string_view name_or_dir);

// The config of the folder, or of the preset. Throws Error{bad_input} for a folder without config.json.
ModelConfig source_config(const ModelSource& source);

struct LoadReport {
  double seconds = 0;
  std::size_t bytes_read = 0;     // of the checkpoint; 0 for random weights
  std::size_t bytes_written = 0;  // of the device's memory, within `seconds`
  bool random = false;
  std::uint64_t seed = 0;
};

struct Model {
  ModelSource source;
  ModelConfig config;
  ModelWeights weights;
  LoadReport load;
};

// Throws Error{bad_input} for a missing or broken checkpoint (the message names tools/fetch_model and
// --random-weights where the weights are not there at all).
Model load_model(Device& device, const ModelSource& source, DType dtype);

// Any preset or config without a checkpoint: normal values of scales at which logits stay finite and
// attention is neither uniform nor one-hot. The same seed gives the same weights on every device and thread
// count.
Model random_model(Device& device, const ModelSource& source, DType dtype, std::uint64_t seed);

}  // namespace attn
