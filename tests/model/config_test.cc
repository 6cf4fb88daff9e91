// config.json in its spellings, the defaults of each family, presets against published values.
#include "lib/model/config.h"

#include <fstream>
#include <map>
#include <sstream>

#include "lib/model/inspect.h"
#include "lib/model/presets.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/expect_error.h"

using namespace attn;
using attn::test::expect_error;

namespace {

const std::filesystem::path kConfigs = std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data/configs";

ModelConfig gpt2(const std::string& more = "") {
  return parse_config(test::gpt2_config_text(more), "config.json");
}
ModelConfig neox(const std::string& more = "") {
  return parse_config(test::neox_config_text(more), "config.json");
}
ModelConfig llama(const std::string& more = "") {
  return parse_config(test::llama_config_text(more), "config.json");
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// All that changes results; describe() writes all of it.
void check_same(const ModelConfig& a, const ModelConfig& b) {
  CHECK(describe(a) == describe(b));
  CHECK(a.bos == b.bos);
}

}  // namespace

TEST_CASE("GPT-2 defaults are those of its Hugging Face class") {
  const ModelConfig config = parse_config(
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 60000, "n_positions": 6})",
      "c");
  CHECK(config.family == Family::gpt2);
  CHECK(config.ffn_hidden == 32);
  CHECK(config.head_dim == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.activation == Activation::gelu_tanh);
  CHECK(config.norm == NormKind::layer_norm);
  CHECK(config.norm_eps == 1e-5F);
  CHECK(config.position == PositionKind::learned);
  CHECK(config.rope.rotary_dims == 0);
  CHECK(config.tied_embeddings);
  CHECK(config.attention_bias);
  CHECK(config.mlp_bias);
  CHECK_FALSE(config.parallel_residual);
  CHECK_FALSE(config.gated_mlp);
  CHECK(config.bos == 50256);
  CHECK(config.eos == 50256);
  CHECK(config.attention_scale(3) == Approx(0.5));
}

TEST_CASE("GPT-NeoX defaults are those of its Hugging Face class") {
  const ModelConfig config = neox();
  CHECK(config.family == Family::gpt_neox);
  CHECK(config.activation == Activation::gelu_erf);
  CHECK(config.parallel_residual);
  CHECK_FALSE(config.tied_embeddings);
  CHECK(config.attention_bias);
  CHECK(config.position == PositionKind::rotary);
  CHECK(config.rope.rotary_dims == 2);
  CHECK(config.rope.theta == 10000);
  CHECK(config.norm_eps == 1e-5F);
  CHECK(config.bos == 0);
  CHECK(config.eos == 2);
}

TEST_CASE("LLaMA defaults are those of its Hugging Face class") {
  const ModelConfig config = llama();
  CHECK(config.head_dim == 6);
  CHECK(config.kv_heads == 2);
  CHECK(config.qkv_rows() == 48);
  CHECK(config.rope.rotary_dims == 6);
  CHECK(config.norm == NormKind::rms_norm);
  CHECK(config.norm_eps == 1e-6F);
  CHECK(config.activation == Activation::silu);
  CHECK(config.gated_mlp);
  CHECK_FALSE(config.attention_bias);
  CHECK_FALSE(config.mlp_bias);
  CHECK_FALSE(config.tied_embeddings);
  const ModelConfig plain = parse_config(
      R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4,
          "intermediate_size": 20, "vocab_size": 13, "max_position_embeddings": 32, "head_dim": null})",
      "c");
  CHECK(plain.head_dim == 4);
  CHECK(plain.kv_heads == 4);
}

TEST_CASE("an untied GPT-2 is read") {
  CHECK_FALSE(gpt2(R"(, "tie_word_embeddings": false)").tied_embeddings);
}

TEST_CASE("attention scale follows the two GPT-2 switches") {
  CHECK(gpt2(R"(, "scale_attn_weights": false)").attention_scale(0) == Approx(1.0));
  CHECK(gpt2(R"(, "scale_attn_by_inverse_layer_idx": true)").attention_scale(1) == Approx(0.25));
  CHECK(gpt2(R"(, "reorder_and_upcast_attn": true)").attention_scale(1) == Approx(0.5));
}

TEST_CASE("the own keys of GPT-2 win over foreign ones") {
  const ModelConfig config = gpt2(
      R"(, "activation_function": "relu", "hidden_act": "gelu", "hidden_size": 99, "intermediate_size": 37)");
  CHECK(config.activation == Activation::relu);
  CHECK(config.hidden == 8);
  CHECK(config.ffn_hidden == 24);
}

TEST_CASE("every activation name becomes its function") {
  const std::map<std::string, Activation> names{
      {"gelu", Activation::gelu_erf},       {"gelu_new", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},           {"silu", Activation::silu},
      {"swish", Activation::silu}};
  for (const auto& [text, activation] : names) {
    CAPTURE(text);
    CHECK(neox(", \"hidden_act\": \"" + text + "\"").activation == activation);
    CHECK(gpt2(", \"activation_function\": \"" + text + "\"").activation == activation);
    CHECK(llama(", \"hidden_act\": \"" + text + "\"").activation == activation);
  }
  expect_error(ErrorKind::unsupported, {"quick_gelu", "gelu_new"},
               [] { neox(R"(, "hidden_act": "quick_gelu")"); });
}

TEST_CASE("old and new spellings of rotary settings agree") {
  const ModelConfig old_way = neox(R"(, "rotary_pct": 0.5, "rotary_emb_base": 5000)");
  CHECK(old_way.rope.rotary_dims == 4);
  CHECK(old_way.rope.theta == 5000);
  check_same(old_way, neox(R"(, "partial_rotary_factor": 0.5, "rope_theta": 5000)"));
  check_same(old_way, neox(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0,
                                                     "partial_rotary_factor": 0.5})"));
  check_same(old_way, neox(R"(, "rotary_pct": 0.5, "rotary_emb_base": 5000, "rope_theta": 5000.0,
                               "partial_rotary_factor": 0.5, "rope_scaling": null)"));
}

TEST_CASE("rope scaling is read under both names and in both places") {
  const ModelConfig linear = llama(R"(, "rope_scaling": {"type": "linear", "factor": 2.5})");
  CHECK(linear.rope.scaling == RopeScaling::linear);
  CHECK(linear.rope.factor == 2.5);
  check_same(linear, llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.5})"));
  check_same(linear, llama(R"(, "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 2.5})"));
  check_same(linear,
             llama(R"(, "rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 10000})"));

  const std::string llama3 = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 8192)";
  const ModelConfig scaled = llama(R"(, "rope_scaling": {"rope_type": "llama3", )" + llama3 + "}");
  CHECK(scaled.rope.scaling == RopeScaling::llama3);
  CHECK(scaled.rope.factor == 8);
  CHECK(scaled.rope.low_freq_factor == 1);
  CHECK(scaled.rope.high_freq_factor == 4);
  CHECK(scaled.rope.original_max_positions == 8192);
  check_same(scaled,
             llama(R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000, )" + llama3 + "}"));
}

TEST_CASE("rope settings that are not implemented or incomplete are refused by name") {
  for (const std::string type : {"dynamic", "yarn", "longrope", "su", "mrope"}) {
    CAPTURE(type);
    expect_error(ErrorKind::unsupported, {type.c_str(), "llama3"},
                 [&] { llama(R"(, "rope_scaling": {"type": ")" + type + R"(", "factor": 2})"); });
  }
  expect_error(ErrorKind::bad_input, {"factor", "missing"},
               [] { llama(R"(, "rope_scaling": {"type": "linear"})"); });
  expect_error(ErrorKind::bad_input, {"rope_type", "missing"},
               [] { llama(R"(, "rope_scaling": {"factor": 2})"); });
  expect_error(ErrorKind::bad_input, {"low_freq_factor"},
               [] { llama(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 2})"); });
  expect_error(ErrorKind::bad_input, {"rope_type", "type", "linear", "default"},
               [] { llama(R"(, "rope_scaling": {"rope_type": "linear", "type": "default", "factor": 2})"); });
  expect_error(ErrorKind::bad_input, {"rope_theta", "rotary_emb_base", "5000"},
               [] { neox(R"(, "rope_theta": 10000, "rotary_emb_base": 5000)"); });
  expect_error(ErrorKind::unsupported, {"partial_rotary_factor"},
               [] { llama(R"(, "partial_rotary_factor": 0.5)"); });
  expect_error(ErrorKind::bad_input, {"factor"},
               [] { llama(R"(, "rope_scaling": {"type": "linear", "factor": 0.5})"); });
  expect_error(ErrorKind::bad_input, {"even"}, [] { neox(R"(, "rotary_pct": 0.4)"); });
}

TEST_CASE("switches of GPT-NeoX and LLaMA are read") {
  CHECK_FALSE(neox(R"(, "use_parallel_residual": false)").parallel_residual);
  CHECK_FALSE(neox(R"(, "attention_bias": false)").attention_bias);
  CHECK(neox(R"(, "tie_word_embeddings": true)").tied_embeddings);
  CHECK(neox(R"(, "layer_norm_eps": 1e-3)").norm_eps == 1e-3F);
  CHECK(llama(R"(, "attention_bias": true)").attention_bias);
  CHECK(llama(R"(, "mlp_bias": true)").mlp_bias);
  CHECK(llama(R"(, "rms_norm_eps": 1e-5)").norm_eps == 1e-5F);
  CHECK(llama(R"(, "tie_word_embeddings": true)").tied_embeddings);
}

TEST_CASE("token ids may be a number or a list or outside a small vocabulary") {
  CHECK(llama(R"(, "eos_token_id": [7, 8])").eos == 7);
  CHECK(llama(R"(, "eos_token_id": 7)").eos == 7);
  CHECK_FALSE(llama(R"(, "eos_token_id": 128001)").eos.has_value());
  CHECK(llama(R"(, "eos_token_id": null)").eos == 2);
  CHECK_FALSE(gpt2().eos.has_value());
}

TEST_CASE("values of a wrong type are refused with key and value") {
  expect_error(ErrorKind::bad_input, {"config.json", "hidden_act", "7"},
               [] { neox(R"(, "hidden_act": 7)"); });
  expect_error(ErrorKind::bad_input, {"use_parallel_residual", "\"yes\""},
               [] { neox(R"(, "use_parallel_residual": "yes")"); });
  expect_error(ErrorKind::bad_input, {"attention_bias", "1"}, [] { neox(R"(, "attention_bias": 1)"); });
  expect_error(ErrorKind::bad_input, {"rotary_pct", "\"0.25\""}, [] { neox(R"(, "rotary_pct": "0.25")"); });
  expect_error(ErrorKind::bad_input, {"rope_scaling", "a list"}, [] { neox(R"(, "rope_scaling": [1])"); });
  const std::string base = R"("model_type": "llama", "hidden_size": 16, "num_attention_heads": 4,
                              "intermediate_size": 20, "vocab_size": 13, "max_position_embeddings": 32)";
  expect_error(ErrorKind::bad_input, {"num_hidden_layers", "missing"},
               [&] { parse_config("{" + base + "}", "c"); });
  for (const std::string value : {"\"two\"", "2.5", "1e300", "99999999999", "true"}) {
    CAPTURE(value);
    expect_error(ErrorKind::bad_input, {"num_hidden_layers", "whole number"},
                 [&] { parse_config("{" + base + ", \"num_hidden_layers\": " + value + "}", "c"); });
  }
}

TEST_CASE("values that do not fit each other are refused") {
  expect_error(ErrorKind::bad_input, {"4", "3", "evenly"}, [] {
    parse_config(
        R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4,
        "num_key_value_heads": 3, "intermediate_size": 20, "vocab_size": 13, "max_position_embeddings": 32})",
        "c");
  });
  const auto gpt2_of = [](const std::string& sizes) {
    return parse_config(
        R"({"model_type": "gpt2", "n_layer": 1, "vocab_size": 9, "n_positions": 4, )" + sizes + "}", "c");
  };
  expect_error(ErrorKind::bad_input, {"10", "4"}, [&] { gpt2_of(R"("n_embd": 10, "n_head": 4)"); });
  expect_error(ErrorKind::bad_input, {"heads", "0"}, [&] { gpt2_of(R"("n_embd": 10, "n_head": 0)"); });
  expect_error(ErrorKind::bad_input, {"hidden", "-8"}, [&] { gpt2_of(R"("n_embd": -8, "n_head": 2)"); });
  expect_error(ErrorKind::bad_input, {"hidden"}, [&] { gpt2_of(R"("n_embd": 2000000000, "n_head": 2)"); });
}

TEST_CASE("what the forward pass does not implement is refused") {
  expect_error(ErrorKind::unsupported, {"model_type", "mistral", "gpt2, gpt_neox, llama"},
               [] { parse_config(R"({"model_type": "mistral"})", "c"); });
  expect_error(ErrorKind::unsupported, {"MistralForCausalLM"},
               [] { parse_config(R"({"architectures": ["MistralForCausalLM"]})", "c"); });
  expect_error(ErrorKind::bad_input, {"model_type", "missing"}, [] { parse_config("{}", "c"); });
  expect_error(ErrorKind::unsupported, {"quantization_config"},
               [] { llama(R"(, "quantization_config": {"quant_method": "gptq"})"); });
  expect_error(ErrorKind::unsupported, {"pruned_heads"}, [] { gpt2(R"(, "pruned_heads": {"0": [1]})"); });
  expect_error(ErrorKind::unsupported, {"add_cross_attention"},
               [] { gpt2(R"(, "add_cross_attention": true)"); });
}

TEST_CASE("broken JSON is refused with the name of the file") {
  for (const std::string text : {"", "{", "[]", "null", "{\"model_type\": \"gpt2\"", "{\"a\": NaN}", "\xff{}",
                                 "{\"a\": \"\xc0\xaf\"}"}) {
    CAPTURE(text);
    expect_error(ErrorKind::bad_input, {"dir/config.json"}, [&] { parse_config(text, "dir/config.json"); });
  }
  expect_error(ErrorKind::bad_input, {"n_embd", "twice"}, [] { gpt2(R"(, "n_embd": 16)"); });
  const std::string deep(200000, '[');
  expect_error(ErrorKind::bad_input, {"config.json"}, [&] { neox(", \"x\": " + deep); });
}

TEST_CASE("parameter counts are the published ones") {
  const std::map<std::string, std::int64_t> published{
      {"gpt2", 124'439'808},           {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},     {"gpt2-xl", 1'557'611'200},
      {"distilgpt2", 81'912'576},      {"pythia-14m", 14'067'712},
      {"pythia-31m", 30'494'720},      {"pythia-70m", 70'426'624},
      {"pythia-160m", 162'322'944},    {"pythia-410m", 405'334'016},
      {"pythia-1b", 1'011'781'632},    {"pythia-1.4b", 1'414'647'808},
      {"pythia-2.8b", 2'775'208'960},  {"pythia-6.9b", 6'857'302'016},
      {"pythia-12b", 11'846'072'320},  {"gpt-neox-20b", 20'554'567'680},
      {"llama-3.2-1b", 1'235'814'400}, {"llama-3.2-3b", 3'212'749'824},
      {"llama-3-8b", 8'030'261'248}};
  for (const auto& [name, count] : published) {
    CAPTURE(name);
    REQUIRE(find_preset(name).has_value());
    CHECK(find_preset(name)->parameter_count() == count);
    if (name.starts_with("pythia-")) {
      REQUIRE(find_preset(name + "-deduped").has_value());
      CHECK(find_preset(name + "-deduped")->parameter_count() == count);
    }
  }
  CHECK_FALSE(find_preset("gpt3").has_value());
}

TEST_CASE("every preset is valid and has a repository of its own") {
  std::map<std::string_view, int> repositories;
  for (const Preset& preset : presets()) {
    CAPTURE(preset.name);
    validate(preset.config, preset.name);
    CHECK(++repositories[preset.hub_repository] == 1);
  }
  CHECK(repositories.size() == 29);
}

TEST_CASE("tools fetch_model knows the repositories of the presets") {
  const std::string list = read_text(std::filesystem::path(ATTN_SOURCE_DIR) / "tools" / "models.json");
  for (const Preset& preset : presets()) {
    const std::string line = fmt::format(R"("{}": "{}")", preset.name, preset.hub_repository);
    CAPTURE(line);
    CHECK(list.find(line) != std::string::npos);
  }
}

TEST_CASE("presets equal the published config files") {
  if (!std::filesystem::exists(kConfigs)) ATTN_SKIP("no ../shared/data/configs");
  std::map<std::string, std::string> file_of{
      {"distilgpt2", "distilgpt2.config.json"},
      {"pythia-6.9b-deduped", "pythia-printed/pythia-6.9b-deduped.config.json"},
      {"pythia-12b-deduped", "pythia-printed/pythia-12b-deduped.config.json"}};
  for (const std::string name : {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"})
    file_of[name] = "gpt2-hf-reconstructed/" + name + ".config.json";
  for (const std::string size : {"14m", "31m", "70m", "160m", "410m", "1b", "1.4b", "2.8b", "6.9b", "12b"})
    file_of["pythia-" + size] = "pythia-derived/pythia-" + size + ".config.json";
  for (const auto& [name, file] : file_of) {
    CAPTURE(name, file);
    check_same(*find_preset(name), parse_config(read_text(kConfigs / file), file));
  }
  // The instruction-tuned LLaMAs end a turn with other tokens, and that of 8B is release 3.1: all else is the
  // same.
  for (const auto& [name, file] :
       std::map<std::string, std::string>{{"llama-3.2-1b", "mlc-presets/llama3_2_1b.json"},
                                          {"llama-3.2-3b", "mlc-presets/llama3_2_3b.json"}})
    check_same(*find_preset(name), parse_config(read_text(kConfigs / file), file));
  ModelConfig llama31 = parse_config(read_text(kConfigs / "mlc-presets/llama3_1_8b.json"), "llama3_1_8b");
  CHECK(llama31.rope.scaling == RopeScaling::llama3);
  llama31.rope.scaling = RopeScaling::none;
  llama31.max_positions = 8192;
  check_same(*find_preset("llama-3-8b"), llama31);
}

TEST_CASE("every config file of known families is read") {
  if (!std::filesystem::exists(kConfigs)) ATTN_SKIP("no ../shared/data/configs");
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    CHECK(parse_config(read_text(entry.path()), entry.path().string()).parameter_count() > 1'000'000);
    ++read;
  }
  CHECK(read >= 28);
}
