// Random weights: the same everywhere, of the stated scales, and healthy in a forward pass' first steps.
#include <cmath>
#include <cstring>

#include <omp.h>

#include "lib/core/rng.h"
#include "lib/core/sha256.h"
#include "lib/model/model.h"
#include "lib/model/presets.h"
#include "lib/model/weight_writer.h"
#include "lib/tensor/convert.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/expect_error.h"
#include "tests/model/host_device.h"

using namespace attn;
using attn::test::expect_error;
using attn::test::HostDevice;
using attn::test::TempDir;

namespace {

const ModelSource kPythia{"pythia-14m", std::nullopt, "preset"};

// A fingerprint of the weights of one layer and the embedding.
std::string fingerprint(const ModelWeights& weights) {
  std::string all;
  for (const TensorView& view : {weights.embedding.tokens, weights.layers[2].qkv.weight,
                                 weights.layers[2].qkv.bias, weights.layers[2].mlp_norm.weight})
    all += sha256_hex({view.as<std::byte>(), view.bytes()});
  return all;
}

struct Moments {
  double mean = 0, deviation = 0;
  bool zero = false;
};

Moments moments_of(const TensorView& view) {
  const std::int64_t rows = view.shape.rank() == 1 ? 1 : view.extent(0);
  const std::int64_t columns = view.extent(view.shape.rank() - 1);
  double sum = 0;
  double squares = 0;
  Moments moments;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const double value = view.as<float>()[row * (rows == 1 ? 0 : view.stride(0)) + column];
      sum += value;
      squares += value * value;
      moments.zero = moments.zero || value == 0;
    }
  }
  const auto count = static_cast<double>(rows * columns);
  moments.mean = sum / count;
  moments.deviation = std::sqrt(squares / count - moments.mean * moments.mean);
  return moments;
}

}  // namespace

TEST_CASE("random weights depend on the seed alone") {
  HostDevice device;
  HostDevice remote(true);
  const Model first = random_model(device, kPythia, DType::f32, 7);
  CHECK(first.load.random);
  CHECK(first.load.seed == 7);
  CHECK(first.load.bytes_read == 0);
  const std::string expected = fingerprint(first.weights);
  CHECK(fingerprint(random_model(device, kPythia, DType::f32, 7).weights) == expected);
  CHECK(fingerprint(random_model(remote, kPythia, DType::f32, 7).weights) == expected);
  CHECK(fingerprint(random_model(device, kPythia, DType::f32, 8).weights) != expected);
  const int threads = omp_get_max_threads();
  for (const int count : {1, 3}) {
    omp_set_num_threads(count);
    CHECK(fingerprint(random_model(device, kPythia, DType::f32, 7).weights) == expected);
  }
  omp_set_num_threads(threads);
}

TEST_CASE("random weights are their definition to the bit") {
  HostDevice device;
  const Model model = random_model(device, kPythia, DType::f32, 7);
  CHECK(model.load.bytes_written == model.weights.bytes);
  // The first tensor drawn is the embedding, with deviation 1; the fifth the first layer's norm, around 1.
  const std::uint64_t base = mix_bits(mix_bits(7) ^ 0U);
  const std::uint64_t norm_base = mix_bits(mix_bits(7) ^ 4U);
  for (std::uint64_t i = 0; i < 128; ++i) {
    CHECK(model.weights.embedding.tokens.as<float>()[i] == near_normal(mix_bits(base ^ i)));
    const volatile float product = 0.05F * near_normal(mix_bits(norm_base ^ i));  // rounded by itself
    CHECK(model.weights.layers[0].attention_norm.weight.as<float>()[i] == 1.0F + product);
  }
}

TEST_CASE("pieces of any size carry every row to a device whose memory is not the host's") {
  ModelConfig config = source_config(kPythia);
  config.layers = 2;
  config.vocab = 300;
  HostDevice host;
  const ModelWeights expected = allocate_weights(host, config, DType::bf16);
  HostDevice remote(true);
  const ModelWeights weights = allocate_weights(remote, config, DType::bf16);
  // Every matrix of a layer: rows below each other, rows side by side, vectors.
  const auto writes_of = [](const ModelWeights& all) {
    std::vector<WeightWrite> writes;
    std::uint64_t stream = 0;
    const auto add = [&](const TensorView& target) {
      const RandomFill fill{mix_bits(stream++), 1, 0};
      writes.push_back(
          {target, [fill](const TensorView& rows, std::int64_t first) { fill_rows(rows, first, fill); }});
    };
    for (const TensorView& view :
         {all.embedding.tokens, all.final_norm.weight, all.final_norm.bias, all.head.weight})
      add(view);
    for (const LayerWeights& layer : all.layers) {
      for (const NormWeights* norm : {&layer.attention_norm, &layer.mlp_norm}) {
        add(norm->weight);
        add(norm->bias);
      }
      for (const LinearWeights* linear : {&layer.qkv, &layer.attention_out, &layer.mlp_in, &layer.mlp_out}) {
        add(linear->weight);
        add(linear->bias);
      }
    }
    return writes;
  };
  const auto wanted = writes_of(expected);
  const auto given = writes_of(weights);
  write_weights(host, expected, wanted);
  for (const std::size_t piece : {std::size_t{1281}, std::size_t{5000}, std::size_t{100000}, kFilledBytes}) {
    CAPTURE(piece);
    for (const Buffer& buffer : weights.storage) std::memset(buffer.data(), 0xff, buffer.bytes());
    remote.uploaded_bytes = 0;
    write_weights(remote, weights, given, piece);
    CHECK(remote.uploaded_bytes == weights.bytes);
    std::int64_t different = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const TensorView& a = wanted[i].target;
      const TensorView& b = given[i].target;
      const std::int64_t rows = a.shape.rank() == 1 ? 1 : a.extent(0);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = row * (rows == 1 ? 0 : a.stride(0));
        different += std::memcmp(a.as<std::uint16_t>() + at, b.as<std::uint16_t>() + at,
                                 static_cast<std::size_t>(a.extent(a.shape.rank() - 1)) * 2) != 0;
      }
    }
    CHECK(different == 0);
  }
  CHECK_THROWS_AS(write_weights(remote, weights, given, 1000), Error);  // a row of mlp_out has 1280 bytes
}

TEST_CASE("random weights of another dtype are the same values rounded") {
  HostDevice device;
  const Model wide = random_model(device, kPythia, DType::f32, 7);
  const Model narrow = random_model(device, kPythia, DType::bf16, 7);
  const TensorView a = wide.weights.layers[4].mlp_out.weight;
  const TensorView b = narrow.weights.layers[4].mlp_out.weight;
  for (const std::int64_t row : {0, 31, 127}) {
    for (const std::int64_t column : {0, 100, 511})
      CHECK(f32_to_bf16(a.as<float>()[row * a.stride(0) + column]) ==
            b.as<std::uint16_t>()[row * b.stride(0) + column]);
  }
}

TEST_CASE("random weights have the stated scales and no zeros") {
  HostDevice device;
  const Model model = random_model(device, kPythia, DType::f32, 1);
  const double wide = 1 / std::sqrt(128.0);
  const double residual = 1 / std::sqrt(12.0);
  const auto check = [](const TensorView& view, double mean, double deviation) {
    const Moments moments = moments_of(view);
    CHECK(moments.mean == Approx(mean).margin(deviation * 0.05));
    CHECK(moments.deviation == Approx(deviation).epsilon(0.05));
    CHECK_FALSE(moments.zero);
  };
  check(model.weights.embedding.tokens, 0, 1);
  check(model.weights.head.weight, 0, 2 * wide);
  const LayerWeights& layer = model.weights.layers[0];
  check(layer.qkv.weight, 0, wide);
  check(layer.attention_out.weight, 0, residual * wide);
  check(layer.mlp_in.weight, 0, wide);
  check(layer.mlp_out.weight, 0, residual / std::sqrt(512.0));
  const Moments norm = moments_of(layer.attention_norm.weight);
  CHECK(norm.mean == Approx(1).margin(0.03));
  CHECK(norm.deviation == Approx(0.05).epsilon(0.3));
  CHECK(moments_of(layer.qkv.bias).deviation == Approx(0.02).epsilon(0.2));
}

TEST_CASE("random normals have the moments of a normal") {
  HostDevice device;
  const Model model = random_model(device, kPythia, DType::f32, 3);
  const TensorView view = model.weights.embedding.tokens;  // deviation 1
  double third = 0;
  double fourth = 0;
  float largest = 0;
  const std::int64_t count = view.shape.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = view.as<float>()[i];
    third += x * x * x;
    fourth += x * x * x * x;
    largest = std::max(largest, std::abs(view.as<float>()[i]));
  }
  CHECK(third / static_cast<double>(count) == Approx(0).margin(0.01));
  CHECK(fourth / static_cast<double>(count) ==
        Approx(3 - 0.3).margin(0.02));  // of four uniforms: 3 - 6 / (5 * 4)
  CHECK(largest > 3.2F);
  CHECK(largest < 3.47F);
  // Neighbours do not follow each other.
  double product = 0;
  for (std::int64_t i = 1; i < count; ++i) product += view.as<float>()[i] * view.as<float>()[i - 1];
  CHECK(product / static_cast<double>(count) == Approx(0).margin(0.005));
}

TEST_CASE("random weights come from a folder with nothing but a config") {
  const TempDir dir;
  test::write_file(dir.path() / "config.json", test::gpt2_config_text(R"(, "scale_attn_weights": false)"));
  HostDevice device;
  const Model model = random_model(device, {"mine", dir.path(), "folder"}, DType::f32, 1);
  CHECK(model.config.hidden == 8);
  CHECK(model.weights.head.weight.data == model.weights.embedding.tokens.data);
  CHECK(moments_of(model.weights.embedding.positions).deviation > 0.1);
  expect_error(ErrorKind::bad_input, {"nobody", "config.json", "preset"}, [&] {
    random_model(device, {"nobody", std::nullopt, "preset"}, DType::f32, 1);
  });
}

TEST_CASE("a preset in a folder with a tokenizer alone takes the values of the preset") {
  const TempDir dir;
  test::write_file(dir.path() / "tokenizer.json", "{}");
  HostDevice device;
  const Model model = random_model(device, {"pythia-14m", dir.path(), "Hugging Face cache"}, DType::f32, 1);
  CHECK(model.config.vocab == 50304);
}
