// LLaMA: rotary positions, RMSNorm, grouped key and value heads, gated MLP.
#include "lib/model/family.h"
#include "lib/model/rope_config.h"

namespace attn {

namespace {

// Keys and defaults: Hugging Face's LlamaConfig.
void read_llama(const ConfigReader& reader, ModelConfig& config) {
  config.layers = reader.integer({"num_hidden_layers"});
  config.hidden = reader.integer({"hidden_size"});
  config.q_heads = reader.integer({"num_attention_heads"});
  config.kv_heads = reader.find_integer({"num_key_value_heads"}).value_or(config.q_heads);
  config.head_dim =
      reader.find_integer({"head_dim"}).value_or(config.q_heads > 0 ? config.hidden / config.q_heads : 0);
  config.ffn_hidden = reader.integer({"intermediate_size"});
  config.max_positions = reader.integer({"max_position_embeddings"});
  config.norm = NormKind::rms_norm;
  config.norm_eps = static_cast<float>(reader.find_number({"rms_norm_eps"}).value_or(1e-6));
  config.position = PositionKind::rotary;
  config.rope = read_rope(reader, config.head_dim, 1);
  if (config.rope.rotary_dims != config.head_dim) {
    fail(ErrorKind::unsupported, "{}: partial_rotary_factor below 1 is not a property of llama models",
         reader.where());
  }
  config.activation = read_activation(reader, {"hidden_act"}, "silu");
  config.gated_mlp = true;
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  config.attention_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  config.bos = reader.first_integer("bos_token_id").value_or(1);
  config.eos = reader.first_integer("eos_token_id").value_or(2);
}

void map_llama(const ModelConfig& config, const ModelWeights& weights, std::vector<TensorMapping>& out) {
  const int hidden = config.hidden;
  const int ffn = config.ffn_hidden;
  const std::int64_t q_rows = std::int64_t{config.q_heads} * config.head_dim;
  const std::int64_t kv_rows = std::int64_t{config.kv_heads} * config.head_dim;
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& target = weights.layers[static_cast<std::size_t>(layer)];
    const std::string stem = "layers." + std::to_string(layer) + ".";
    const std::string attention = stem + "self_attn.";
    const bool bias = config.attention_bias;
    map_norm(stem + "input_layernorm", hidden, target.attention_norm, false, out);
    map_linear({attention + "q_proj", q_rows, hidden, bias, 0}, target.qkv, out);
    map_linear({attention + "k_proj", kv_rows, hidden, bias, q_rows}, target.qkv, out);
    map_linear({attention + "v_proj", kv_rows, hidden, bias, q_rows + kv_rows}, target.qkv, out);
    map_linear({attention + "o_proj", hidden, q_rows, bias}, target.attention_out, out);
    map_norm(stem + "post_attention_layernorm", hidden, target.mlp_norm, false, out);
    map_linear({stem + "mlp.gate_proj", ffn, hidden, config.mlp_bias, 0}, target.mlp_in, out);
    map_linear({stem + "mlp.up_proj", ffn, hidden, config.mlp_bias, ffn}, target.mlp_in, out);
    map_linear({stem + "mlp.down_proj", hidden, ffn, config.mlp_bias}, target.mlp_out, out);
  }
  map_norm("norm", hidden, weights.final_norm, false, out);
}

bool is_llama_buffer(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace

const FamilyTraits kLlamaTraits{Family::llama,         "Llama",          "model.",   "layers.",
                                "embed_tokens.weight", "lm_head.weight", read_llama, map_llama,
                                is_llama_buffer};

}  // namespace attn
