// The table of presets.
#include "lib/model/presets.h"

#include <string>
#include <vector>

namespace attn {

namespace {

// Values of the config.json on the hub (openai-community/gpt2*, distilbert/distilgpt2).
ModelConfig gpt2(int layers, int hidden, int heads) {
  ModelConfig config;
  config.family = Family::gpt2;
  config.layers = layers;
  config.hidden = hidden;
  config.q_heads = config.kv_heads = heads;
  config.head_dim = hidden / heads;
  config.ffn_hidden = 4 * hidden;
  config.vocab = 50257;
  config.max_positions = 1024;
  config.position = PositionKind::learned;
  config.activation = Activation::gelu_tanh;
  config.tied_embeddings = true;
  config.bos = config.eos = 50256;
  return config;
}

// Vocabulary of 50254 + 25 tokens, padded to a multiple of 128 times the model-parallel size of the training
// run.
ModelConfig neox(int layers, int hidden, int heads, int vocab, int max_positions) {
  ModelConfig config;
  config.family = Family::gpt_neox;
  config.layers = layers;
  config.hidden = hidden;
  config.q_heads = config.kv_heads = heads;
  config.head_dim = hidden / heads;
  config.ffn_hidden = 4 * hidden;
  config.vocab = vocab;
  config.max_positions = max_positions;
  config.rope.rotary_dims = config.head_dim / 4;
  config.activation = Activation::gelu_erf;
  config.parallel_residual = true;
  config.bos = config.eos = 0;
  return config;
}

ModelConfig llama3(int layers, int hidden, int heads, int head_dim, int ffn_hidden) {
  ModelConfig config;
  config.family = Family::llama;
  config.layers = layers;
  config.hidden = hidden;
  config.q_heads = heads;
  config.kv_heads = 8;
  config.head_dim = head_dim;
  config.ffn_hidden = ffn_hidden;
  config.vocab = 128256;
  config.max_positions = 8192;
  config.norm = NormKind::rms_norm;
  config.rope.theta = 500000;
  config.rope.rotary_dims = head_dim;
  config.activation = Activation::silu;
  config.gated_mlp = true;
  config.attention_bias = config.mlp_bias = false;
  config.bos = 128000;
  config.eos = 128001;
  return config;
}

ModelConfig llama3_2(int layers, int hidden, int heads, int head_dim) {
  ModelConfig config = llama3(layers, hidden, heads, head_dim, 8192);
  config.max_positions = 131072;
  config.tied_embeddings = true;
  config.rope.scaling = RopeScaling::llama3;
  config.rope.factor = 32;
  config.rope.low_freq_factor = 1;
  config.rope.high_freq_factor = 4;
  config.rope.original_max_positions = 8192;
  return config;
}

// gpt-neox-20b differs in its activation, the tanh form.
ModelConfig neox_20b() {
  ModelConfig config = neox(44, 6144, 64, 50432, 2048);
  config.activation = Activation::gelu_tanh;
  return config;
}

std::vector<Preset> make_presets() {
  return {
      {"gpt2", "openai-community/gpt2", gpt2(12, 768, 12)},
      {"gpt2-medium", "openai-community/gpt2-medium", gpt2(24, 1024, 16)},
      {"gpt2-large", "openai-community/gpt2-large", gpt2(36, 1280, 20)},
      {"gpt2-xl", "openai-community/gpt2-xl", gpt2(48, 1600, 25)},
      {"distilgpt2", "distilbert/distilgpt2", gpt2(6, 768, 12)},
      {"pythia-14m", "EleutherAI/pythia-14m", neox(6, 128, 4, 50304, 512)},
      {"pythia-14m-deduped", "EleutherAI/pythia-14m-deduped", neox(6, 128, 4, 50304, 512)},
      {"pythia-31m", "EleutherAI/pythia-31m", neox(6, 256, 8, 50304, 1024)},
      {"pythia-31m-deduped", "EleutherAI/pythia-31m-deduped", neox(6, 256, 8, 50304, 1024)},
      {"pythia-70m", "EleutherAI/pythia-70m", neox(6, 512, 8, 50304, 2048)},
      {"pythia-70m-deduped", "EleutherAI/pythia-70m-deduped", neox(6, 512, 8, 50304, 2048)},
      {"pythia-160m", "EleutherAI/pythia-160m", neox(12, 768, 12, 50304, 2048)},
      {"pythia-160m-deduped", "EleutherAI/pythia-160m-deduped", neox(12, 768, 12, 50304, 2048)},
      {"pythia-410m", "EleutherAI/pythia-410m", neox(24, 1024, 16, 50304, 2048)},
      {"pythia-410m-deduped", "EleutherAI/pythia-410m-deduped", neox(24, 1024, 16, 50304, 2048)},
      {"pythia-1b", "EleutherAI/pythia-1b", neox(16, 2048, 8, 50304, 2048)},
      {"pythia-1b-deduped", "EleutherAI/pythia-1b-deduped", neox(16, 2048, 8, 50304, 2048)},
      {"pythia-1.4b", "EleutherAI/pythia-1.4b", neox(24, 2048, 16, 50304, 2048)},
      {"pythia-1.4b-deduped", "EleutherAI/pythia-1.4b-deduped", neox(24, 2048, 16, 50304, 2048)},
      {"pythia-2.8b", "EleutherAI/pythia-2.8b", neox(32, 2560, 32, 50304, 2048)},
      {"pythia-2.8b-deduped", "EleutherAI/pythia-2.8b-deduped", neox(32, 2560, 32, 50304, 2048)},
      {"pythia-6.9b", "EleutherAI/pythia-6.9b", neox(32, 4096, 32, 50432, 2048)},
      {"pythia-6.9b-deduped", "EleutherAI/pythia-6.9b-deduped", neox(32, 4096, 32, 50432, 2048)},
      {"pythia-12b", "EleutherAI/pythia-12b", neox(36, 5120, 40, 50688, 2048)},
      {"pythia-12b-deduped", "EleutherAI/pythia-12b-deduped", neox(36, 5120, 40, 50688, 2048)},
      {"gpt-neox-20b", "EleutherAI/gpt-neox-20b", neox_20b()},
      {"llama-3.2-1b", "meta-llama/Llama-3.2-1B", llama3_2(16, 2048, 32, 64)},
      {"llama-3.2-3b", "meta-llama/Llama-3.2-3B", llama3_2(28, 3072, 24, 128)},
      {"llama-3-8b", "meta-llama/Meta-Llama-3-8B", llama3(32, 4096, 32, 128, 14336)},
  };
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

std::optional<ModelConfig> find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset.config;
  }
  return std::nullopt;
}

}  // namespace attn
