// Options that every program with a model shares, and what they open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/model/model.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attn {

struct ModelOptions {
  std::string model = "demo";  // a name or a folder
  std::string model_size;      // system B's spelling: 2.8b stands for pythia-2.8b (7b for pythia-6.9b)
  bool random_weights = false;
  std::uint64_t seed = 0;  // of random weights, random prompts and sampling
  std::string device = "auto";
  std::string dtype = "auto";
  int threads = 0;                        // 0: every core this process may use
  std::string baseline_scores = "dtype";  // a name of kBaselineScoresNames
};

void add_model_options(CLI::App& app, ModelOptions& options);
// --baseline-scores, which add_model_options has among its own.
void add_baseline_scores(CLI::App& app, std::string& scores);
// Values by commas, by spaces, or by repeating the flag.
CLI::Option* as_list(CLI::Option* option);

// model, or what model_size stands for.
std::string model_name(const ModelOptions& options);
// "auto" is f32 on the CPU and bf16 on a GPU. Throws Error{usage} for an unknown name.
DType resolve_dtype(std::string_view dtype, const Device& device);
Platform open_platform(const ModelOptions& options);
// The model's weights, read or drawn. `platform` must outlive it.
Model open_model(const ModelOptions& options, Platform& platform);
// Throws Error{usage} naming a mode that is not "baseline", "flash" or "reference", or that is named twice.
void check_modes(const std::vector<std::string>& modes);

// The argument vector, for the record.
std::vector<std::string> arguments(int argc, const char* const* argv);
// Folders of the checkout: prompts/, datasets/, models/.
std::filesystem::path source_path(std::string_view relative);

}  // namespace attn
