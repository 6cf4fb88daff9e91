// A model folder for the programs' tests: the bundled tokenizer and a config so small that random weights
// take no time.
#pragma once

#include <filesystem>
#include <string>

#include "tests/cli/run_program.h"

namespace attn {

// `vocab`: rows of the embedding; the bundled tokenizer has 2048 ids.
inline std::string make_tiny_model(const std::filesystem::path& folder, int vocab = 2048,
                                   const std::string& model_type = "gpt_neox") {
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::filesystem::path(ATTN_SOURCE_DIR) / "models/demo/tokenizer.json",
                             folder / "tokenizer.json");
  write_text_file(folder / "config.json",
                  "{\"model_type\": \"" + model_type +
                      "\", \"hidden_size\": 16, \"intermediate_size\": 32, \"num_attention_heads\": 2, "
                      "\"num_hidden_layers\": 1, \"max_position_embeddings\": 64, \"vocab_size\": " +
                      std::to_string(vocab) + ", \"hidden_act\": \"gelu\", \"rotary_pct\": 0.5}");
  return folder.string();
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace attn
