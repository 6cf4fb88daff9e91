// GPT-NeoX and Pythia: rotary positions on a part of each head, parallel residual, one QKV matrix stored per
// head.
#include "lib/model/family.h"
#include "lib/model/rope_config.h"

namespace attn {

namespace {

// Keys and defaults: Hugging Face's GPTNeoXConfig.
void read_neox(const ConfigReader& reader, ModelConfig& config) {
  config.layers = reader.integer({"num_hidden_layers"});
  config.hidden = reader.integer({"hidden_size"});
  config.q_heads = reader.integer({"num_attention_heads"});
  config.kv_heads = config.q_heads;
  config.head_dim = config.q_heads > 0 ? config.hidden / config.q_heads : 0;
  config.ffn_hidden = reader.integer({"intermediate_size"});
  config.max_positions = reader.integer({"max_position_embeddings"});
  config.norm = NormKind::layer_norm;
  config.norm_eps = static_cast<float>(reader.find_number({"layer_norm_eps"}).value_or(1e-5));
  config.position = PositionKind::rotary;
  config.rope = read_rope(reader, config.head_dim, 0.25);
  config.activation = read_activation(reader, {"hidden_act"}, "gelu");
  config.parallel_residual = reader.flag("use_parallel_residual", true);
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  config.attention_bias = reader.flag("attention_bias", true);
  config.bos = reader.first_integer("bos_token_id").value_or(0);
  config.eos = reader.first_integer("eos_token_id").value_or(2);
}

void map_neox(const ModelConfig& config, const ModelWeights& weights, std::vector<TensorMapping>& out) {
  const int hidden = config.hidden;
  const bool bias = config.attention_bias;
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& target = weights.layers[static_cast<std::size_t>(layer)];
    const std::string stem = "layers." + std::to_string(layer) + ".";
    map_norm(stem + "input_layernorm", hidden, target.attention_norm, true, out);
    map_linear({stem + "attention.query_key_value", config.qkv_rows(), hidden, bias, 0, Arrangement::by_head},
               target.qkv, out);
    map_linear({stem + "attention.dense", hidden, hidden, bias}, target.attention_out, out);
    map_norm(stem + "post_attention_layernorm", hidden, target.mlp_norm, true, out);
    map_linear({stem + "mlp.dense_h_to_4h", config.ffn_hidden, hidden}, target.mlp_in, out);
    map_linear({stem + "mlp.dense_4h_to_h", hidden, config.ffn_hidden}, target.mlp_out, out);
  }
  map_norm("final_layer_norm", hidden, weights.final_norm, true, out);
}

// Causal masks and rotary frequencies that old versions saved.
bool is_neox_buffer(std::string_view name) {
  return name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

const FamilyTraits kGptNeoxTraits{Family::gpt_neox, "GPTNeoX",         "gpt_neox.",
                                  "layers.",        "embed_in.weight", "embed_out.weight",
                                  read_neox,        map_neox,          is_neox_buffer};

}  // namespace attn
