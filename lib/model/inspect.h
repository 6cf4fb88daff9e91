// What a checkpoint holds, measured against what its config asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/model.h"

namespace attn {

struct TensorSummary {
  std::string name;
  std::string dtype;  // the file's name for it; empty for a missing tensor
  std::string shape;  // "[2, 3]": as stored; as expected for a missing tensor
  std::string note;   // for a mismatch: the shape that the config asks for
};

struct InspectReport {
  ModelSource source;
  ModelConfig config;
  std::vector<std::string> files;
  std::vector<TensorSummary> used, missing, mismatched, unused, buffers;
  std::vector<std::string> aliased;  // "lm_head.weight is transformer.wte.weight (tied)"
  std::string problem;               // why load_model would refuse it; empty when it would not
  std::string text;                  // all of it for a person to read
};

// Reads headers and config, no weights. Throws Error{bad_input} for a source without files, and what
// read_config and Checkpoint throw; a checkpoint that does not fit its config is reported, not thrown.
InspectReport inspect_checkpoint(const ModelSource& source);

// One line for each group of settings of a config.
std::string describe(const ModelConfig& config);

}  // namespace attn
