// Small model folders for tests: safetensors written tensor by tensor, right or wrong on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"

namespace attn::test {

namespace fs = std::filesystem;

// A new empty folder, removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (fs::temp_directory_path() / "attn-model-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline void write_file(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string length_prefix(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

// A file of this header and this many bytes of data.
inline std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_prefix(header.size()) + header + std::string(data_bytes, '\x01');
}

struct TestTensor {
  std::vector<std::int64_t> shape;
  std::string dtype = "F32";
  std::vector<float> values;
};

// By name; values are small multiples of 2^-8, exact in every dtype, and differ from place to place.
struct TestCheckpoint {
  std::map<std::string, TestTensor> tensors;
  std::uint64_t salt = 1;

  TestTensor& add(const std::string& name, const std::vector<std::int64_t>& shape,
                  const std::string& dtype = "F32") {
    TestTensor& tensor = tensors[name];
    tensor.shape = shape;
    tensor.dtype = dtype;
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    ++salt;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto draw = static_cast<int>(random_bits(9, salt, static_cast<std::uint64_t>(i)) % 255) - 127;
      tensor.values.push_back(static_cast<float>(draw) / 256);
    }
    return tensor;
  }

  // Of the tensors whose name `wanted` accepts.
  template <typename Wanted>
  std::string file(Wanted wanted) const {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      if (!wanted(name)) continue;
      const std::size_t begin = data.size();
      for (const float value : tensor.values) append(data, tensor.dtype, value);
      header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                            tensor.dtype, fmt::join(tensor.shape, ","), begin, data.size());
    }
    header += "}";
    while (header.size() % 8 != 0) header += ' ';
    return length_prefix(header.size()) + header + data;
  }
  std::string file() const {
    return file([](const std::string&) { return true; });
  }

 private:
  static void append(std::string& data, const std::string& dtype, float value) {
    const std::uint16_t half = dtype == "F16" ? f32_to_f16(value) : f32_to_bf16(value);
    const std::size_t bytes = dtype == "F32" ? 4 : dtype == "U8" ? 1 : dtype == "F64" ? 8 : 2;
    const double wide = value;
    const void* source = dtype == "F32" || dtype == "U8" ? static_cast<const void*>(&value)
                         : dtype == "F64"                ? static_cast<const void*>(&wide)
                                                         : static_cast<const void*>(&half);
    data.append(static_cast<const char*>(source), bytes);
  }
};

inline std::string gpt2_config_text(const std::string& more = "") {
  return R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_inner": 24, "vocab_size": 11,
             "n_positions": 6)" +
         more + "}";
}

inline TestCheckpoint gpt2_checkpoint(const std::string& prefix = "transformer.",
                                      const std::string& dtype = "F32") {
  TestCheckpoint checkpoint;
  checkpoint.add(prefix + "wte.weight", {11, 8}, dtype);
  checkpoint.add(prefix + "wpe.weight", {6, 8}, dtype);
  for (const std::string layer : {"0", "1"}) {
    const std::string stem = prefix + "h." + layer + ".";
    for (const std::string norm : {"ln_1", "ln_2"}) {
      checkpoint.add(stem + norm + ".weight", {8}, dtype);
      checkpoint.add(stem + norm + ".bias", {8}, dtype);
    }
    checkpoint.add(stem + "attn.c_attn.weight", {8, 24}, dtype);
    checkpoint.add(stem + "attn.c_attn.bias", {24}, dtype);
    checkpoint.add(stem + "attn.c_proj.weight", {8, 8}, dtype);
    checkpoint.add(stem + "attn.c_proj.bias", {8}, dtype);
    checkpoint.add(stem + "mlp.c_fc.weight", {8, 24}, dtype);
    checkpoint.add(stem + "mlp.c_fc.bias", {24}, dtype);
    checkpoint.add(stem + "mlp.c_proj.weight", {24, 8}, dtype);
    checkpoint.add(stem + "mlp.c_proj.bias", {8}, dtype);
  }
  checkpoint.add(prefix + "ln_f.weight", {8}, dtype);
  checkpoint.add(prefix + "ln_f.bias", {8}, dtype);
  return checkpoint;
}

inline std::string neox_config_text(const std::string& more = "") {
  return R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 3,
             "intermediate_size": 40, "vocab_size": 13, "max_position_embeddings": 32)" +
         more + "}";
}

inline TestCheckpoint neox_checkpoint() {
  TestCheckpoint checkpoint;
  checkpoint.add("gpt_neox.embed_in.weight", {13, 24});
  checkpoint.add("embed_out.weight", {13, 24});
  const std::string stem = "gpt_neox.layers.0.";
  for (const std::string norm :
       {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "final_layer_norm"}) {
    checkpoint.add("gpt_neox." + norm + ".weight", {24});
    checkpoint.add("gpt_neox." + norm + ".bias", {24});
  }
  checkpoint.add(stem + "attention.query_key_value.weight", {72, 24});
  checkpoint.add(stem + "attention.query_key_value.bias", {72});
  checkpoint.add(stem + "attention.dense.weight", {24, 24});
  checkpoint.add(stem + "attention.dense.bias", {24});
  checkpoint.add(stem + "mlp.dense_h_to_4h.weight", {40, 24});
  checkpoint.add(stem + "mlp.dense_h_to_4h.bias", {40});
  checkpoint.add(stem + "mlp.dense_4h_to_h.weight", {24, 40});
  checkpoint.add(stem + "mlp.dense_4h_to_h.bias", {24});
  // What old files carry.
  checkpoint.add(stem + "attention.bias", {1, 1, 4, 4}, "U8");
  checkpoint.add(stem + "attention.masked_bias", {});
  checkpoint.add(stem + "attention.rotary_emb.inv_freq", {1});
  return checkpoint;
}

inline std::string llama_config_text(const std::string& more = "") {
  return R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 20, "vocab_size": 13,
             "max_position_embeddings": 32)" +
         more + "}";
}

inline TestCheckpoint llama_checkpoint() {
  TestCheckpoint checkpoint;
  checkpoint.add("model.embed_tokens.weight", {13, 16});
  checkpoint.add("lm_head.weight", {13, 16});
  const std::string stem = "model.layers.0.";
  checkpoint.add(stem + "input_layernorm.weight", {16});
  checkpoint.add(stem + "self_attn.q_proj.weight", {24, 16});
  checkpoint.add(stem + "self_attn.k_proj.weight", {12, 16});
  checkpoint.add(stem + "self_attn.v_proj.weight", {12, 16});
  checkpoint.add(stem + "self_attn.o_proj.weight", {16, 24});
  checkpoint.add(stem + "post_attention_layernorm.weight", {16});
  checkpoint.add(stem + "mlp.gate_proj.weight", {20, 16});
  checkpoint.add(stem + "mlp.up_proj.weight", {20, 16});
  checkpoint.add(stem + "mlp.down_proj.weight", {16, 20});
  checkpoint.add(stem + "self_attn.rotary_emb.inv_freq", {3});
  checkpoint.add("model.norm.weight", {16});
  return checkpoint;
}

}  // namespace attn::test
