// GPT-2: learned positions, LayerNorm, Conv1D weights stored [in, out], head tied to the embedding.
#include "lib/model/family.h"

namespace attn {

namespace {

// Keys and defaults: Hugging Face's GPT2Config, with its attribute_map as second spelling. Foreign keys such
// as hidden_act or intermediate_size in a GPT-2 file mean nothing to it.
void read_gpt2(const ConfigReader& reader, ModelConfig& config) {
  config.layers = reader.integer({"n_layer", "num_hidden_layers"});
  config.hidden = reader.integer({"n_embd", "hidden_size"});
  config.q_heads = reader.integer({"n_head", "num_attention_heads"});
  config.kv_heads = config.q_heads;
  config.head_dim = config.q_heads > 0 ? config.hidden / config.q_heads : 0;
  config.ffn_hidden =
      reader.find_integer({"n_inner"}).value_or(config.hidden < (1 << 28) ? 4 * config.hidden : 0);
  config.max_positions = reader.integer({"n_positions", "max_position_embeddings", "n_ctx"});
  config.norm = NormKind::layer_norm;
  config.norm_eps = static_cast<float>(reader.find_number({"layer_norm_epsilon"}).value_or(1e-5));
  config.position = PositionKind::learned;
  config.activation = read_activation(reader, {"activation_function"}, "gelu_new");
  config.tied_embeddings = reader.flag("tie_word_embeddings", true);
  config.scale_attention = reader.flag("scale_attn_weights", true);
  config.scale_attention_by_layer = reader.flag("scale_attn_by_inverse_layer_idx", false);
  reader.flag("reorder_and_upcast_attn",
              false);  // the order of rounding in half precision: scores here are f32
  if (reader.flag("add_cross_attention", false))
    fail(ErrorKind::unsupported, "{}: add_cross_attention is not implemented", reader.where());
  config.bos = reader.first_integer("bos_token_id").value_or(50256);
  config.eos = reader.first_integer("eos_token_id").value_or(50256);
}

void map_gpt2(const ModelConfig& config, const ModelWeights& weights, std::vector<TensorMapping>& out) {
  const int hidden = config.hidden;
  out.push_back({"wpe.weight", {config.max_positions, hidden}, weights.embedding.positions});
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& target = weights.layers[static_cast<std::size_t>(layer)];
    const std::string stem = "h." + std::to_string(layer) + ".";
    const auto conv1d = [&](const char* name, std::int64_t rows, std::int64_t columns,
                            const LinearWeights& to) {
      map_linear({stem + name, rows, columns, true, 0, Arrangement::transposed}, to, out);
    };
    map_norm(stem + "ln_1", hidden, target.attention_norm, true, out);
    conv1d("attn.c_attn", 3 * hidden, hidden, target.qkv);
    conv1d("attn.c_proj", hidden, hidden, target.attention_out);
    map_norm(stem + "ln_2", hidden, target.mlp_norm, true, out);
    conv1d("mlp.c_fc", config.ffn_hidden, hidden, target.mlp_in);
    conv1d("mlp.c_proj", hidden, config.ffn_hidden, target.mlp_out);
  }
  map_norm("ln_f", hidden, weights.final_norm, true, out);
}

// Causal masks that old versions saved.
bool is_gpt2_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

const FamilyTraits kGpt2Traits{Family::gpt2,     "GPT2",    "transformer.", "h.",          "wte.weight",
                               "lm_head.weight", read_gpt2, map_gpt2,       is_gpt2_buffer};

}  // namespace attn
