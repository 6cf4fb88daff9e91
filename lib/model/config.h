// ModelConfig: a model family is data; one forward pass reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/backend/ops.h"
#include "lib/core/enum_names.h"

namespace attn {

enum class Family : unsigned char { gpt2, gpt_neox, llama };
inline constexpr auto kFamilyNames =
    name_table<Family>({{Family::gpt2, "gpt2"}, {Family::gpt_neox, "gpt_neox"}, {Family::llama, "llama"}});

enum class PositionKind : unsigned char { learned, rotary };

// Scaling of rotary frequencies. llama3 is the rule of the LLaMA 3.1 release (`rope_type: llama3`).
enum class RopeScaling : unsigned char { none, linear, llama3 };

struct RopeConfig {
  double theta = 10000;
  int rotary_dims = 0;  // of each head; 0 for learned positions
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double low_freq_factor = 1;      // llama3
  double high_freq_factor = 4;     // llama3
  int original_max_positions = 0;  // llama3
};

struct ModelConfig {
  Family family = Family::gpt_neox;
  int layers = 0;
  int hidden = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn_hidden = 0;
  int vocab = 0;  // rows of the embedding, padding included
  int max_positions = 0;

  NormKind norm = NormKind::layer_norm;
  float norm_eps = 1e-5F;
  PositionKind position = PositionKind::rotary;
  RopeConfig rope;
  Activation activation = Activation::gelu_erf;
  bool gated_mlp = false;          // LLaMA: activation(gate) * up
  bool parallel_residual = false;  // x + attention(norm1(x)) + mlp(norm2(x))
  bool tied_embeddings = false;
  bool attention_bias = true;  // of the query, key, value and output projections
  bool mlp_bias = true;

  bool scale_attention = true;            // scores / sqrt(head_dim)
  bool scale_attention_by_layer = false;  // and / (layer + 1), GPT-2's scale_attn_by_inverse_layer_idx
  std::optional<int> bos, eos;            // the first one where the file gives a list

  float attention_scale(int layer) const;
  int qkv_rows() const { return (q_heads + 2 * kv_heads) * head_dim; }
  std::int64_t parameter_count() const;  // what the weights hold, a tied head counted once
};

// From the text of a Hugging Face config.json, in the old and the new spelling. `where` names the file in
// messages. Throws Error{bad_input} for missing or inconsistent values, Error{unsupported} for a model_type,
// activation or rope type that is not implemented.
ModelConfig parse_config(std::string_view json_text, std::string_view where);
ModelConfig read_config(const std::filesystem::path& model_dir);  // model_dir/config.json

// Throws Error{bad_input} naming the first value that is out of range or does not fit the others.
void validate(const ModelConfig& config, std::string_view where);

}  // namespace attn
