// Weights after loading, element by element against the file's.
#include <functional>

#include "lib/model/inspect.h"
#include "lib/model/model.h"
#include "lib/model/presets.h"
#include "lib/tensor/convert.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/expect_error.h"
#include "tests/model/host_device.h"

using namespace attn;
using attn::test::expect_error;
using attn::test::HostDevice;
using attn::test::TempDir;
using attn::test::TestCheckpoint;
using attn::test::TestTensor;
using attn::test::write_file;

namespace {

const std::filesystem::path kCheckpoints =
    std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data/checkpoints";

float element(const TensorView& view, std::int64_t row, std::int64_t column) {
  const std::int64_t stride = view.shape.rank() == 1 ? 0 : view.stride(0);
  float value = 0;
  convert_elements(
      view.as<std::byte>() + static_cast<std::size_t>(row * stride + column) * size_of(view.dtype),
      view.dtype, &value, DType::f32, 1);
  return value;
}

std::int64_t rows_of(const TensorView& view) { return view.shape.rank() == 1 ? 1 : view.extent(0); }
std::int64_t columns_of(const TensorView& view) { return view.extent(view.shape.rank() - 1); }

// Where row r, column c of our weight lies in the stored tensor.
using Place = std::function<std::int64_t(std::int64_t row, std::int64_t column)>;

void check_placed(const TensorView& view, const TestTensor& stored, const Place& place,
                  std::int64_t first_row = 0) {
  REQUIRE_FALSE(view.empty());
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < rows_of(view); ++row) {
    for (std::int64_t column = 0; column < columns_of(view); ++column) {
      const auto index = static_cast<std::size_t>(place(row + first_row, column));
      wrong += element(view, row, column) != stored.values.at(index) ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
}

void check_same(const TensorView& view, const TestTensor& stored) {
  CHECK(view.shape.elements() == static_cast<std::int64_t>(stored.values.size()));
  check_placed(view, stored,
               [&](std::int64_t row, std::int64_t column) { return row * columns_of(view) + column; });
}

Model load(const TestCheckpoint& checkpoint, const std::string& config, HostDevice& device,
           DType dtype = DType::f32) {
  const TempDir dir;  // gone before the weights are read by the test: they must not lean on the mapped file
  write_file(dir.path() / "config.json", config);
  write_file(dir.path() / "model.safetensors", checkpoint.file());
  return load_model(device, {"tiny", dir.path(), "folder"}, dtype);
}

std::vector<TensorView> all_views(const ModelWeights& weights) {
  std::vector<TensorView> views{weights.embedding.tokens, weights.embedding.positions,
                                weights.final_norm.weight, weights.final_norm.bias, weights.head.weight};
  for (const LayerWeights& layer : weights.layers) {
    for (const NormWeights* norm : {&layer.attention_norm, &layer.mlp_norm}) {
      views.push_back(norm->weight);
      views.push_back(norm->bias);
    }
    for (const LinearWeights* linear : {&layer.qkv, &layer.attention_out, &layer.mlp_in, &layer.mlp_out}) {
      views.push_back(linear->weight);
      views.push_back(linear->bias);
    }
  }
  std::vector<TensorView> present;
  for (const TensorView& view : views) {
    if (!view.empty()) present.push_back(view);
  }
  return present;
}

void check_equal(const ModelWeights& a, const ModelWeights& b) {
  const auto left = all_views(a);
  const auto right = all_views(b);
  REQUIRE(left.size() == right.size());
  std::int64_t different = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    REQUIRE(left[i].shape == right[i].shape);
    for (std::int64_t row = 0; row < rows_of(left[i]); ++row) {
      for (std::int64_t column = 0; column < columns_of(left[i]); ++column)
        different +=
            element(left[i], row, column) == element(right[i], row, column) ? 0 : 1;  // NaN differs too
    }
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("GPT-2 weights are turned from in x out to out x in") {
  for (const std::string prefix : {"transformer.", ""}) {
    CAPTURE(prefix);
    TestCheckpoint checkpoint = test::gpt2_checkpoint(prefix);
    checkpoint.add(prefix + "h.0.attn.bias", {1, 1, 6, 6}, "U8");
    checkpoint.add(prefix + "h.0.attn.masked_bias", {});
    HostDevice device;
    const Model model = load(checkpoint, test::gpt2_config_text(), device);
    const auto& stored = checkpoint.tensors;
    for (std::size_t i = 0; i < 2; ++i) {
      const LayerWeights& layer = model.weights.layers[i];
      const std::string stem = prefix + "h." + std::to_string(i) + ".";
      const auto turned = [&](const LinearWeights& linear, const std::string& name) {
        check_placed(
            linear.weight, stored.at(stem + name + ".weight"),
            [&](std::int64_t row, std::int64_t column) { return column * rows_of(linear.weight) + row; });
        check_same(linear.bias, stored.at(stem + name + ".bias"));
      };
      turned(layer.qkv, "attn.c_attn");
      turned(layer.attention_out, "attn.c_proj");
      turned(layer.mlp_in, "mlp.c_fc");
      turned(layer.mlp_out, "mlp.c_proj");
      check_same(layer.attention_norm.weight, stored.at(stem + "ln_1.weight"));
      check_same(layer.mlp_norm.bias, stored.at(stem + "ln_2.bias"));
    }
    check_same(model.weights.embedding.tokens, stored.at(prefix + "wte.weight"));
    check_same(model.weights.embedding.positions, stored.at(prefix + "wpe.weight"));
    CHECK(model.weights.head.weight.data == model.weights.embedding.tokens.data);
    CHECK(model.weights.layers[0].qkv.weight.extent(0) == 24);
    CHECK(model.weights.layers[0].mlp_out.weight.shape == Shape{8, 24});
  }
}

TEST_CASE("GPT-NeoX queries keys and values leave their heads and stand apart") {
  const TestCheckpoint checkpoint = test::neox_checkpoint();
  for (const std::string parallel : {"true", "false"}) {
    CAPTURE(parallel);
    HostDevice device;
    const Model model =
        load(checkpoint, test::neox_config_text(", \"use_parallel_residual\": " + parallel), device);
    const LayerWeights& layer = model.weights.layers[0];
    const std::string stem = "gpt_neox.layers.0.";
    // 3 heads of 8: our row (part, head, dim) is stored row (head, part, dim).
    const auto stored_row = [](std::int64_t row) { return (row / 8 % 3) * 24 + (row / 24) * 8 + row % 8; };
    check_placed(layer.qkv.weight, checkpoint.tensors.at(stem + "attention.query_key_value.weight"),
                 [&](std::int64_t row, std::int64_t column) { return stored_row(row) * 24 + column; });
    check_placed(layer.qkv.bias, checkpoint.tensors.at(stem + "attention.query_key_value.bias"),
                 [&](std::int64_t, std::int64_t column) { return stored_row(column); });
    check_same(layer.attention_out.weight, checkpoint.tensors.at(stem + "attention.dense.weight"));
    check_same(layer.attention_out.bias, checkpoint.tensors.at(stem + "attention.dense.bias"));
    check_same(layer.mlp_in.weight, checkpoint.tensors.at(stem + "mlp.dense_h_to_4h.weight"));
    check_same(layer.mlp_in.bias, checkpoint.tensors.at(stem + "mlp.dense_h_to_4h.bias"));
    check_same(layer.mlp_out.weight, checkpoint.tensors.at(stem + "mlp.dense_4h_to_h.weight"));
    check_same(layer.mlp_out.bias, checkpoint.tensors.at(stem + "mlp.dense_4h_to_h.bias"));
    check_same(model.weights.final_norm.weight, checkpoint.tensors.at("gpt_neox.final_layer_norm.weight"));
    check_same(model.weights.head.weight, checkpoint.tensors.at("embed_out.weight"));
    CHECK(model.weights.embedding.positions.empty());
    if (parallel == "true") {
      // One product can run both: neighbours below each other, and columns side by side.
      const auto* qkv_end = layer.qkv.weight.as<float>() + 72 * 24;
      CHECK(layer.mlp_in.weight.as<float>() == qkv_end);
      CHECK(layer.mlp_in.bias.as<float>() == layer.qkv.bias.as<float>() + 72);
      CHECK(layer.mlp_out.weight.as<float>() == layer.attention_out.weight.as<float>() + 24);
      CHECK(layer.mlp_out.weight.stride(0) == 64);
    }
  }
}

TEST_CASE("LLaMA projections are stacked in their order") {
  const TestCheckpoint checkpoint = test::llama_checkpoint();
  HostDevice device;
  const Model model = load(checkpoint, test::llama_config_text(), device);
  const LayerWeights& layer = model.weights.layers[0];
  const std::string stem = "model.layers.0.";
  check_same(layer.qkv.weight.slice(0, 0, 24), checkpoint.tensors.at(stem + "self_attn.q_proj.weight"));
  check_same(layer.qkv.weight.slice(0, 24, 12), checkpoint.tensors.at(stem + "self_attn.k_proj.weight"));
  check_same(layer.qkv.weight.slice(0, 36, 12), checkpoint.tensors.at(stem + "self_attn.v_proj.weight"));
  check_same(layer.attention_out.weight, checkpoint.tensors.at(stem + "self_attn.o_proj.weight"));
  check_same(layer.mlp_in.weight.slice(0, 0, 20), checkpoint.tensors.at(stem + "mlp.gate_proj.weight"));
  check_same(layer.mlp_in.weight.slice(0, 20, 20), checkpoint.tensors.at(stem + "mlp.up_proj.weight"));
  check_same(layer.mlp_out.weight, checkpoint.tensors.at(stem + "mlp.down_proj.weight"));
  check_same(model.weights.head.weight, checkpoint.tensors.at("lm_head.weight"));
  CHECK(layer.qkv.bias.empty());
  CHECK(layer.mlp_in.bias.empty());
  CHECK(layer.attention_norm.bias.empty());
  CHECK(layer.attention_norm.eps == 1e-6F);
}

TEST_CASE("LLaMA biases are stacked like their weights") {
  TestCheckpoint checkpoint = test::llama_checkpoint();
  const std::string stem = "model.layers.0.";
  for (const auto& [name, rows] : std::map<std::string, std::int64_t>{{"self_attn.q_proj", 24},
                                                                      {"self_attn.k_proj", 12},
                                                                      {"self_attn.v_proj", 12},
                                                                      {"self_attn.o_proj", 16},
                                                                      {"mlp.gate_proj", 20},
                                                                      {"mlp.up_proj", 20},
                                                                      {"mlp.down_proj", 16}})
    checkpoint.add(stem + name + ".bias", {rows});
  HostDevice device;
  const Model model =
      load(checkpoint, test::llama_config_text(R"(, "attention_bias": true, "mlp_bias": true)"), device);
  const LayerWeights& layer = model.weights.layers[0];
  check_same(layer.qkv.bias.slice(0, 24, 12), checkpoint.tensors.at(stem + "self_attn.k_proj.bias"));
  check_same(layer.qkv.bias.slice(0, 36, 12), checkpoint.tensors.at(stem + "self_attn.v_proj.bias"));
  check_same(layer.attention_out.bias, checkpoint.tensors.at(stem + "self_attn.o_proj.bias"));
  check_same(layer.mlp_in.bias.slice(0, 20, 20), checkpoint.tensors.at(stem + "mlp.up_proj.bias"));
  check_same(layer.mlp_out.bias, checkpoint.tensors.at(stem + "mlp.down_proj.bias"));
}

TEST_CASE("a tied model reads one matrix under either name") {
  TestCheckpoint checkpoint = test::llama_checkpoint();
  const std::string config = test::llama_config_text(R"(, "tie_word_embeddings": true)");
  const std::vector<float> embedding = checkpoint.tensors.at("model.embed_tokens.weight").values;
  const std::vector<float> head = checkpoint.tensors.at("lm_head.weight").values;
  SECTION("both are there: the embedding counts") {
    HostDevice device;
    const Model model = load(checkpoint, config, device);
    CHECK(model.weights.head.weight.as<float>()[5] == embedding[5]);
    CHECK(model.weights.head.weight.data == model.weights.embedding.tokens.data);
  }
  SECTION("the embedding alone") {
    checkpoint.tensors.erase("lm_head.weight");
    HostDevice device;
    CHECK(load(checkpoint, config, device).weights.head.weight.as<float>()[5] == embedding[5]);
  }
  SECTION("the head alone") {
    checkpoint.tensors.erase("model.embed_tokens.weight");
    HostDevice device;
    CHECK(load(checkpoint, config, device).weights.embedding.tokens.as<float>()[5] == head[5]);
  }
}

TEST_CASE("a GPT-NeoX head is found under its own and under the newer name") {
  TestCheckpoint checkpoint = test::neox_checkpoint();
  const std::vector<float> head = checkpoint.tensors.at("embed_out.weight").values;
  checkpoint.tensors["lm_head.weight"] = checkpoint.tensors.at("embed_out.weight");
  checkpoint.tensors.erase("embed_out.weight");
  HostDevice device;
  CHECK(load(checkpoint, test::neox_config_text(), device).weights.head.weight.as<float>()[77] == head[77]);
}

TEST_CASE("every stored and wanted dtype gives the same values") {
  HostDevice device;
  const Model reference = load(test::gpt2_checkpoint(), test::gpt2_config_text(), device);
  for (const std::string stored : {"F32", "F16", "BF16"}) {
    for (const DType wanted : {DType::f32, DType::f16, DType::bf16}) {
      CAPTURE(stored, static_cast<int>(wanted));
      const Model model =
          load(test::gpt2_checkpoint("transformer.", stored), test::gpt2_config_text(), device, wanted);
      CHECK(model.weights.dtype == wanted);
      CHECK(model.weights.layers[1].mlp_in.weight.dtype == wanted);
      check_equal(reference.weights, model.weights);  // the test's values are exact in each
    }
  }
}

TEST_CASE("a device with memory of its own gets the same weights through uploads") {
  HostDevice host;
  HostDevice remote(true);
  const auto load_on = [](HostDevice& device) {
    return load(test::neox_checkpoint(), test::neox_config_text(), device, DType::bf16);
  };
  const Model a = load_on(host);
  const Model b = load_on(remote);
  check_equal(a.weights, b.weights);
  CHECK(host.uploaded_bytes == 0);
  CHECK(remote.uploaded_bytes == b.weights.bytes);
}

TEST_CASE("the memory of weights is entered as such and foreseen") {
  HostDevice device;
  for (const std::string name : {"gpt2", "pythia-14m", "distilgpt2"}) {
    const ModelConfig config = *find_preset(name);
    const ModelWeights weights = allocate_weights(device, config, DType::f16);
    CHECK(weights.bytes == weight_bytes(config, DType::f16));
    CHECK(device.memory().live_bytes() == weights.bytes);
    const auto exact = static_cast<std::size_t>(config.parameter_count()) * 2;
    CHECK(weights.bytes >= exact);
    CHECK(weights.bytes <= exact + 256 * 16 * static_cast<std::size_t>(config.layers + 1));
  }
  CHECK(device.memory().live_bytes() == 0);
}

TEST_CASE("trained checkpoints load with the values of their files") {
  if (!std::filesystem::exists(kCheckpoints)) ATTN_SKIP("no ../shared/data/checkpoints");
  HostDevice device;
  for (const std::string name : {"stories260K/hf", "gpt-nano-sort/hf", "tiny-random-gpt2"}) {
    CAPTURE(name);
    const ModelSource source{name, kCheckpoints / name, "folder"};
    const InspectReport report = inspect_checkpoint(source);
    CHECK(report.problem.empty());
    CHECK(report.missing.empty());
    CHECK(report.unused.empty());
    const Model model = load_model(device, source, DType::f32);
    for (const TensorView& view : all_views(model.weights)) {
      bool finite = true;
      for (std::int64_t row = 0; row < rows_of(view); ++row) {
        for (std::int64_t column = 0; column < columns_of(view); ++column)
          finite = finite && element(view, row, column) == element(view, row, column);
      }
      CHECK(finite);
    }
  }
  // Read from the files by another program (Python's struct at the offsets of the header).
  const Model stories = load_model(device, {"s", kCheckpoints / "stories260K/hf", "folder"}, DType::f32);
  const LayerWeights& layer = stories.weights.layers[3];
  CHECK(element(layer.qkv.weight, 5, 7) == 0.062163763F);
  CHECK(element(layer.qkv.weight, 64 + 5, 7) == 0.2396171F);
  CHECK(element(layer.qkv.weight, 96 + 31, 63) == 0.022998562F);
  CHECK(element(layer.mlp_in.weight, 172 + 9, 11) == -0.15988322F);
  CHECK(element(layer.mlp_out.weight, 60, 171) == -0.07310146F);
  CHECK(element(stories.weights.head.weight, 511, 63) == -0.4240326F);
  const Model sort = load_model(device, {"s", kCheckpoints / "gpt-nano-sort/hf", "folder"}, DType::f32);
  CHECK(element(sort.weights.layers[2].qkv.weight, 100, 7) == 0.075181276F);
  CHECK(element(sort.weights.layers[2].mlp_out.weight, 40, 190) == 0.006550425F);
  CHECK(element(sort.weights.layers[0].mlp_in.bias, 0, 191) == 0.0072673657F);
  CHECK(element(sort.weights.embedding.positions, 10, 3) == 0.074905895F);
  CHECK(element(sort.weights.head.weight, 2, 47) == -0.22518001F);
}
