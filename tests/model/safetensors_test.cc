// safetensors files and folders, right and broken in every way that happens.
#include "lib/model/safetensors.h"

#include "lib/model/checkpoint.h"
#include "lib/model/inspect.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/expect_error.h"
#include "tests/model/host_device.h"

using namespace attn;
using attn::test::expect_error;
using attn::test::file_of;
using attn::test::TempDir;
using attn::test::TestCheckpoint;
using attn::test::write_file;

namespace {

std::vector<StoredTensor> read(const std::string& bytes) {
  return read_safetensors({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "x.safetensors");
}

void refuse(const std::string& bytes, std::initializer_list<const char*> named) {
  expect_error(ErrorKind::bad_input, named, [&] { read(bytes); });
}

// One tensor "t" with this entry.
std::string one(const std::string& entry, std::size_t data_bytes = 24) {
  return file_of("{\"t\":" + entry + "}", data_bytes);
}

ModelSource write_model(const TempDir& dir, const TestCheckpoint& checkpoint, const std::string& config) {
  write_file(dir.path() / "config.json", config);
  write_file(dir.path() / "model.safetensors", checkpoint.file());
  return {"tiny", dir.path(), "folder"};
}

void refuse_load(const TestCheckpoint& checkpoint, const std::string& config,
                 std::initializer_list<const char*> named) {
  const TempDir dir;
  const ModelSource source = write_model(dir, checkpoint, config);
  test::HostDevice device;
  expect_error(ErrorKind::bad_input, named, [&] { load_model(device, source, DType::f32); });
  CHECK(device.memory().peak_bytes() == 0);  // refused before memory is taken
}

// Shard "a" holds the embedding and position tables, "b" the rest, and the index says so.
void write_shards(const TempDir& dir, const TestCheckpoint& checkpoint, const std::string& left_out = "") {
  const auto in_a = [](const std::string& name) {
    return name.find(".w") != std::string::npos && name.find(".h.") == std::string::npos;
  };
  write_file(dir.path() / "a.safetensors", checkpoint.file(in_a));
  write_file(dir.path() / "b.safetensors",
             checkpoint.file([&](const std::string& name) { return !in_a(name); }));
  std::string index;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name == left_out) continue;
    index += fmt::format(R"({}"{}":"{}")", index.empty() ? "" : ",", name,
                         in_a(name) ? "a.safetensors" : "b.safetensors");
  }
  write_file(dir.path() / "model.safetensors.index.json",
             R"({"metadata":{"total_size":1},"weight_map":{)" + index + "}}");
}

}  // namespace

TEST_CASE("tensors of a safetensors file are found with dtype and shape and bytes") {
  const auto tensors = read(file_of(R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
      "__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[],"data_offsets":[30,31]},
      "empty":{"dtype":"BF16","shape":[0,5],"data_offsets":[24,24]}})",
                                    32));
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].bytes.size() == 1);
  CHECK_FALSE(tensors[0].element_type().has_value());
  CHECK(tensors[1].name == "b");
  CHECK(tensors[1].shape_text() == "[2, 3]");
  CHECK(tensors[1].element_type() == DType::f32);
  CHECK(tensors[1].bytes.data() + 30 == tensors[0].bytes.data());
  CHECK(tensors[2].bytes.empty());
}

TEST_CASE("a header length that lies is refused") {
  refuse("", {"x.safetensors", "too few"});
  refuse("1234567", {"too few"});
  refuse(test::length_prefix(3), {"header length 3", "beyond"});
  refuse(test::length_prefix(1000) + "{}", {"header length 1000", "beyond"});
  refuse(test::length_prefix(100'000'001) + "{}", {"100000001", "limit"});
  refuse(test::length_prefix(~std::uint64_t{0}) + "{}", {"18446744073709551615", "limit"});
  refuse(test::length_prefix(0), {"JSON"});
}

TEST_CASE("a header that is not of the format is refused") {
  refuse(file_of("{\"t\":", 0), {"header", "JSON"});
  refuse(file_of("[]", 0), {"object"});
  refuse(file_of("{\"t\xff\":{}}", 0), {"JSON"});
  refuse(one("[]"), {"'t'", "not an object"});
  refuse(one("{}"), {"'t'", "dtype"});
  refuse(one(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})"), {"dtype"});
  refuse(one(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})"), {"F31"});
  refuse(one(R"({"dtype":"F32","data_offsets":[0,4]})"), {"shape"});
  refuse(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), {"shape"});
  refuse(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), {"shape"});
  refuse(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"), {"shape"});
  refuse(one(R"({"dtype":"F32","shape":[1]})"), {"data_offsets"});
  refuse(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"), {"data_offsets"});
  refuse(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"), {"data_offsets"});
  refuse(file_of(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],
                     "data_offsets":[1,2]}})",
                 2),
         {"'t'", "twice"});
}

TEST_CASE("offsets that cannot be are refused") {
  refuse(one(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})"), {"'t'", "[8, 4]", "end before"});
  refuse(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), {"'t'", "4 bytes", "[2]"});
  refuse(one(R"({"dtype":"F16","shape":[1],"data_offsets":[0,4]})"), {"F16"});
  refuse(one(R"({"dtype":"F32","shape":[7],"data_offsets":[0,28]})"), {"28", "24", "truncated"});
  refuse(one(R"({"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]})"),
         {"truncated"});
  // 2^32 * 2^32 elements wrap around to 0 in 64 bits.
  refuse(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), {"does not fill"});
  refuse(file_of(R"({"s":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                     "t":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                 12),
         {"'s'", "'t'", "overlap"});
}

TEST_CASE("a file cut anywhere is refused and never read past its end") {
  const std::string whole = test::neox_checkpoint().file();
  CHECK(read(whole).size() == test::neox_checkpoint().tensors.size());
  for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 97) {
    CAPTURE(size);
    CHECK_THROWS_AS(read(std::string(whole, 0, size)), Error);
  }
}

TEST_CASE("a truncated or foreign or absent checkpoint is refused with what to do") {
  test::HostDevice device;
  const auto load = [&](const TempDir& dir) {
    load_model(device, {"tiny", dir.path(), "folder"}, DType::f32);
  };
  const TempDir dir;
  expect_error(ErrorKind::bad_input, {"config.json", "fetch_model"}, [&] { load(dir); });
  write_file(dir.path() / "config.json", test::gpt2_config_text());
  expect_error(ErrorKind::bad_input, {"model.safetensors", "fetch_model", "--random-weights"},
               [&] { load(dir); });
  write_file(dir.path() / "pytorch_model.bin", "x");
  expect_error(ErrorKind::bad_input, {"pytorch_model", "safetensors"}, [&] { load(dir); });
  write_file(dir.path() / "model-00001-of-00002.safetensors", "x");
  expect_error(ErrorKind::bad_input, {"index"}, [&] { load(dir); });
  const std::string file = test::gpt2_checkpoint().file();
  write_file(dir.path() / "model.safetensors", file.substr(0, file.size() - 1));
  expect_error(ErrorKind::bad_input, {"model.safetensors", "truncated"}, [&] { load(dir); });
  expect_error(ErrorKind::bad_input, {"gpt2-xl", "tools/fetch_model gpt2-xl", "--random-weights"}, [&] {
    load_model(device, {"gpt2-xl", std::nullopt, "preset"}, DType::f32);
  });
}

TEST_CASE("shards load as the single file does") {
  const TestCheckpoint checkpoint = test::gpt2_checkpoint();
  const TempDir dir;
  write_file(dir.path() / "config.json", test::gpt2_config_text());
  write_shards(dir, checkpoint);
  const Checkpoint opened(dir.path());
  CHECK(opened.files() == std::vector<std::string>{"a.safetensors", "b.safetensors"});
  CHECK(opened.tensors().size() == checkpoint.tensors.size());
  test::HostDevice device;
  const Model model = load_model(device, {"tiny", dir.path(), "folder"}, DType::f32);
  CHECK(model.load.bytes_read == 4 * static_cast<std::size_t>(model.config.parameter_count()));
  CHECK(model.weights.embedding.tokens.as<float>()[9] ==
        checkpoint.tensors.at("transformer.wte.weight").values[9]);
  CHECK(model.weights.final_norm.bias.as<float>()[3] ==
        checkpoint.tensors.at("transformer.ln_f.bias").values[3]);
}

TEST_CASE("an index that does not fit its shards is refused") {
  const TestCheckpoint checkpoint = test::gpt2_checkpoint();
  test::HostDevice device;
  const TempDir dir;
  write_file(dir.path() / "config.json", test::gpt2_config_text());
  const auto load = [&] { load_model(device, {"tiny", dir.path(), "folder"}, DType::f32); };

  write_shards(dir, checkpoint, "transformer.h.1.ln_2.bias");
  expect_error(ErrorKind::bad_input, {"transformer.h.1.ln_2.bias", "in a shard", "index"}, load);

  write_shards(dir, checkpoint);
  test::fs::remove(dir.path() / "b.safetensors");
  expect_error(ErrorKind::bad_input, {"shard b.safetensors", "missing"}, load);

  write_shards(dir, checkpoint);
  TestCheckpoint less = checkpoint;
  less.tensors.erase("transformer.wpe.weight");
  const TempDir other;
  write_shards(other, less);
  test::fs::copy_file(other.path() / "a.safetensors", dir.path() / "a.safetensors",
                      test::fs::copy_options::overwrite_existing);
  expect_error(ErrorKind::bad_input, {"'transformer.wpe.weight'", "a.safetensors", "index"}, load);

  for (const std::string file : {"\"../a.safetensors\"", "\"/etc/passwd\"", "\"\"", "7"}) {
    write_file(dir.path() / "model.safetensors.index.json", "{\"weight_map\":{\"t\":" + file + "}}");
    expect_error(ErrorKind::bad_input, {"model.safetensors.index.json"}, load);
  }
  write_file(dir.path() / "model.safetensors.index.json", "{}");
  expect_error(ErrorKind::bad_input, {"weight_map"}, load);
}

TEST_CASE("each way a checkpoint can miss its config has its own message") {
  TestCheckpoint checkpoint = test::neox_checkpoint();
  const std::string config = test::neox_config_text();
  const std::string dense = "gpt_neox.layers.0.attention.dense.weight";

  SECTION("another family") {
    refuse_load(test::gpt2_checkpoint(), config, {"model_type gpt_neox", "named like those of gpt2"});
  }
  SECTION("a missing tensor") {
    checkpoint.tensors.erase(dense);
    refuse_load(checkpoint, config, {dense.c_str(), "[24, 24]", "missing", "--inspect"});
  }
  SECTION("a wrong shape") {
    checkpoint.tensors.erase(dense);
    checkpoint.add(dense, {24, 12});
    refuse_load(checkpoint, config, {dense.c_str(), "[24, 12]", "[24, 24]"});
  }
  SECTION("a wrong dtype") {
    checkpoint.tensors.erase(dense);
    checkpoint.add(dense, {24, 24}, "F64");
    refuse_load(checkpoint, config, {dense.c_str(), "F64", "BF16"});
  }
  SECTION("another vocabulary") {
    checkpoint.tensors.erase("gpt_neox.embed_in.weight");
    checkpoint.add("gpt_neox.embed_in.weight", {12, 24});
    refuse_load(checkpoint, config, {"vocab_size", "13", "12 rows"});
  }
  SECTION("no head and not tied") {
    checkpoint.tensors.erase("embed_out.weight");
    refuse_load(checkpoint, config, {"embed_out.weight", "tie_word_embeddings"});
  }
  SECTION("more layers than the config says") {
    checkpoint.add("gpt_neox.layers.1.attention.dense.weight", {24, 24});
    refuse_load(checkpoint, config, {"gpt_neox.layers.1.attention.dense.weight", "no place"});
  }
  SECTION("biases that the config denies") {
    refuse_load(checkpoint, test::neox_config_text(R"(, "attention_bias": false)"), {"bias", "no place"});
  }
}

TEST_CASE("inspection lists what is used and missing and unused and aliased") {
  const TempDir dir;
  TestCheckpoint checkpoint = test::neox_checkpoint();
  checkpoint.tensors.erase("gpt_neox.final_layer_norm.bias");
  checkpoint.add("value_head.weight", {1, 24}, "BF16");
  const ModelSource source =
      write_model(dir, checkpoint, test::neox_config_text(R"(, "tie_word_embeddings": true)"));
  const InspectReport report = inspect_checkpoint(source);
  REQUIRE(report.missing.size() == 1);
  CHECK(report.missing[0].name == "gpt_neox.final_layer_norm.bias");
  CHECK(report.missing[0].shape == "[24]");
  REQUIRE(report.unused.size() == 1);
  CHECK(report.unused[0].name == "value_head.weight");
  CHECK(report.unused[0].dtype == "BF16");
  CHECK(report.buffers.size() == 3);
  REQUIRE(report.aliased.size() == 1);
  CHECK(report.aliased[0].find("embed_out.weight is gpt_neox.embed_in.weight") == 0);
  CHECK(report.aliased[0].find("not read") != std::string::npos);
  CHECK(report.used.size() == 14);
  CHECK_FALSE(report.problem.empty());
  for (const std::string& text :
       std::vector<std::string>{"gpt_neox.final_layer_norm.bias", "value_head.weight", "F32", "gpt_neox",
                                "loads: no", std::to_string(report.config.parameter_count())}) {
    CAPTURE(text);
    CHECK(report.text.find(text) != std::string::npos);
  }
  expect_error(ErrorKind::bad_input, {"fetch_model"}, [] {
    inspect_checkpoint({"gpt2", std::nullopt, "preset"});
  });
}
