// What is seen of the numbers inside a forward pass, against direct computation and planted faults.
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/eval/health_attention.h"
#include "tests/catch.h"
#include "tests/eval/fault_attention.h"
#include "tests/model/host_device.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

constexpr int kTokens = 19;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One call's tensors in memory of the test, laid out as in a forward pass: q inside rows of q, k and v; keys
// and values by heads with room for more tokens.
struct Call {
  AttentionProblem problem;
  std::vector<float> q, k, v, out;
  std::vector<std::uint16_t> q16, k16, v16, out16;
  AttentionTensors tensors;

  Call(const AttentionProblem& of, std::uint64_t seed) : problem(of) {
    const std::int64_t width = (of.q_heads + 2 * of.kv_heads) * of.head_dim;
    const std::int64_t capacity = of.kv_len + 3;
    q = numbers(of.batch * of.q_len * width, seed, 0);
    k = numbers(std::int64_t{of.batch} * of.kv_heads * capacity * of.head_dim, seed, 1);
    v = numbers(std::int64_t{of.batch} * of.kv_heads * capacity * of.head_dim, seed, 2);
    out.assign(static_cast<std::size_t>(of.batch * of.q_len * of.q_heads * of.head_dim), 0.0F);
    const auto view = [&](std::vector<float>& full, std::vector<std::uint16_t>& half, const Shape& shape,
                          std::array<std::int64_t, 4> strides) {
      void* data = full.data();
      if (of.dtype != DType::f32) {
        half.resize(full.size());
        convert_elements(full.data(), DType::f32, half.data(), of.dtype, full.size());
        convert_elements(half.data(), of.dtype, full.data(), DType::f32, full.size());
        data = half.data();
      }
      TensorView made(data, of.dtype, shape);
      made.strides = strides;
      return made;
    };
    tensors.q = view(q, q16, {of.batch, of.q_len, of.q_heads, of.head_dim},
                     {of.q_len * width, width, of.head_dim, 1});
    const std::int64_t head = capacity * of.head_dim;
    const Shape cached{of.batch, of.kv_len, of.kv_heads, of.head_dim};
    tensors.k = view(k, k16, cached, {head * of.kv_heads, of.head_dim, head, 1});
    tensors.v = view(v, v16, cached, {head * of.kv_heads, of.head_dim, head, 1});
    tensors.out = view(out, out16, {of.batch, of.q_len, of.q_heads, of.head_dim},
                       {of.q_len * of.q_heads * of.head_dim, of.q_heads * of.head_dim, of.head_dim, 1});
  }

  static std::vector<float> numbers(std::int64_t count, std::uint64_t seed, std::uint64_t stream) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(seed, stream, i);
    return values;
  }
  float& q_at(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t dim) {
    return q[offset(tensors.q, batch, token, head, dim)];
  }
  float& k_at(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t dim) {
    return k[offset(tensors.k, batch, token, head, dim)];
  }
  float& v_at(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t dim) {
    return v[offset(tensors.v, batch, token, head, dim)];
  }
  static std::size_t offset(const TensorView& view, std::int64_t batch, std::int64_t token, std::int64_t head,
                            std::int64_t dim) {
    return static_cast<std::size_t>(batch * view.stride(0) + token * view.stride(1) + head * view.stride(2) +
                                    dim);
  }

  // By the definition.
  double largest_score() {
    double largest = 0;
    for (int b = 0; b < problem.batch; ++b) {
      for (int h = 0; h < problem.q_heads; ++h) {
        for (int i = 0; i < problem.q_len; ++i) {
          for (int j = 0; j < problem.kv_len; ++j) {
            if (problem.causal && j > i + problem.kv_len - problem.q_len) continue;
            double sum = 0;
            for (int d = 0; d < problem.head_dim; ++d)
              sum += static_cast<double>(q_at(b, i, h, d)) *
                     static_cast<double>(k_at(b, j, h / (problem.q_heads / problem.kv_heads), d));
            largest = std::max(largest, std::fabs(sum * static_cast<double>(problem.scale)));
          }
        }
      }
    }
    return largest;
  }
};

// Does nothing, or what it is told.
FaultAttention instead_of(
    Platform& platform, FaultAttention::Call call = [](AttentionBackend&, const AttentionProblem&,
                                                       const AttentionTensors&, void*, void*) {}) {
  return {platform.backend("reference"), std::move(call)};
}

struct Run {
  std::vector<float> logits;
  std::string kernel;
};

Run run(Platform& platform, const Model& model, AttentionBackend& attention,
        const std::vector<int>& portions) {
  Transformer transformer(platform, model, {1, kTokens, kTokens, kTokens});
  const auto ids = random_prompt(61, kTokens, 9);
  Run out;
  std::size_t done = 0;
  for (const int count : portions) {
    const Reservation call{count, static_cast<int>(done) + count};
    transformer.reserve(attention, call);
    out.kernel = transformer.kernel_for(attention, call);
    const auto part = std::span(ids).subspan(done, static_cast<std::size_t>(count));
    const auto logits =
        download_logits(transformer, transformer.forward(transformer.upload_ids(part), attention));
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    done += static_cast<std::size_t>(count);
  }
  return out;
}

}  // namespace

TEST_CASE("watching changes nothing bit by bit in every mode and family") {
  Platform platform = open_platform(test_device());
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      for (const std::vector<int>& portions : {std::vector<int>{kTokens}, std::vector<int>{11, 1, 1, 6}}) {
        CAPTURE(kFamilyNames.name(family), mode, portions.size());
        AttentionBackend& plain = platform.backend(mode);
        HealthAttention watched(plain, *platform.device, model.config.layers);
        const Run with = run(platform, model, watched, portions);
        const Run without = run(platform, model, plain, portions);
        CHECK(with.logits == without.logits);
        CHECK(with.kernel == without.kernel);
        CHECK(watched.name() == mode);
        CHECK(watched.passes() == static_cast<std::int64_t>(portions.size()));
        CHECK_FALSE(watched.first_nonfinite().has_value());
        for (const LayerHealth& layer : watched.layers()) {
          CHECK(layer.largest_score > 0.1);
          CHECK(layer.largest_score < 1000);
          CHECK_FALSE(layer.scores_overflow_f16());
          CHECK(*layer.f16_headroom() == Approx(65504 / layer.largest_score));
        }
      }
    }
  }
}

TEST_CASE("prefill and decode see the same largest scores") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::llama);
  HealthAttention prefill(platform.backend("flash"), *platform.device, 2);
  HealthAttention decode(platform.backend("flash"), *platform.device, 2);
  run(platform, model, prefill, {kTokens});
  run(platform, model, decode, std::vector<int>(kTokens, 1));
  for (std::size_t i = 0; i < 2; ++i) {
    const LayerHealth& a = prefill.layers()[i];
    const LayerHealth& b = decode.layers()[i];
    CHECK(a.largest_score == Approx(b.largest_score).epsilon(1e-5));
    CHECK(a.query == b.query);
    CHECK(a.key == b.key);
    CHECK(a.head == b.head);
  }
}

TEST_CASE("the largest score is that of all visible pairs for any shape and type") {
  Platform platform = open_platform("cpu");
  test::HostDevice device(true);
  FaultAttention nothing = instead_of(platform);
  std::uint64_t seed = 0;
  for (const AttentionProblem& problem : {AttentionProblem{1, 9, 9, 4, 4, 6, DType::f32, 0.4F, true},
                                          AttentionProblem{2, 5, 12, 6, 2, 7, DType::f32, 0.1F, true},
                                          AttentionProblem{1, 1, 30, 4, 1, 8, DType::f32, 1.0F, true},
                                          AttentionProblem{3, 8, 8, 2, 2, 16, DType::f32, -0.5F, false},
                                          AttentionProblem{1, 40, 40, 3, 3, 5, DType::bf16, 0.3F, true},
                                          AttentionProblem{2, 3, 20, 4, 2, 8, DType::f16, 0.3F, true},
                                          AttentionProblem{1, 1, 1, 1, 1, 1, DType::f32, 1.0F, true}}) {
    CAPTURE(problem.text());
    Call call(problem, ++seed);
    HealthAttention health(nothing, device, 1);
    health.forward(problem, call.tensors, nullptr, nullptr);
    const LayerHealth& layer = health.layers()[0];
    CHECK(layer.largest_score == Approx(call.largest_score()).epsilon(1e-12));
    CHECK(layer.largest_score ==
          Approx(layer.largest_product * std::fabs(static_cast<double>(problem.scale))).epsilon(1e-12));
    CHECK(layer.query >= problem.kv_len - problem.q_len);
    CHECK((!problem.causal || layer.key <= layer.query));
    CHECK_FALSE(health.first_nonfinite().has_value());
  }
}

TEST_CASE("a score that no query may see does not count") {
  Platform platform = open_platform("cpu");
  test::HostDevice device;
  FaultAttention nothing = instead_of(platform);
  Call call({1, 4, 6, 1, 1, 2, DType::f32, 1.0F, true}, 3);
  call.k_at(0, 5, 0, 0) = 1e6F;
  call.k_at(0, 5, 0, 1) = 0;
  call.q_at(0, 3, 0, 0) = 0;  // the one query that sees this key
  HealthAttention health(nothing, device, 1);
  health.forward(call.problem, call.tensors, nullptr, nullptr);
  CHECK(health.layers()[0].largest_score < 100);
  CHECK(health.layers()[0].largest_value == 1e6);
  CHECK(health.layers()[0].values_overflow_f16());
  call.q_at(0, 3, 0, 0) = 2;
  health.forward(call.problem, call.tensors, nullptr, nullptr);
  CHECK(health.layers()[0].largest_score == 2e6);
  CHECK(health.layers()[0].query == 5);
  CHECK(health.layers()[0].key == 5);
}

TEST_CASE("huge weights of one layer are told to overflow f16 and there only") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  const auto run_health = [&] {
    HealthAttention health(platform.backend("flash"), *platform.device, 2);
    run(platform, model, health, {kTokens});
    return health.layers();
  };
  const auto before = run_health();
  // Queries and keys of layer 1 times 300: scores times 90,000.
  for (const TensorView& part : {model.weights.layers[1].qkv.weight.slice(0, 0, 48),
                                 model.weights.layers[1].qkv.bias.slice(0, 0, 48)}) {
    std::vector<float> values(static_cast<std::size_t>(part.shape.elements()));
    platform.device->download(values.data(), part.data, part.bytes());
    for (float& x : values) x *= 300;
    platform.device->upload(part.data, values.data(), part.bytes());
  }
  const auto after = run_health();
  CHECK(after[0].largest_score == before[0].largest_score);
  CHECK_FALSE(after[0].scores_overflow_f16());
  CHECK(*after[0].f16_headroom() > 1);
  CHECK(after[1].largest_score == Approx(90000 * before[1].largest_score).epsilon(1e-4));
  CHECK(after[1].scores_overflow_f16());
  CHECK(after[1].products_overflow_f16());
  CHECK(*after[1].f16_headroom() < 1);
}

TEST_CASE("f16 overflows from 65520 on and a product may where its score does not") {
  LayerHealth layer;
  CHECK_FALSE(layer.f16_headroom().has_value());
  layer.largest_score = 65519;
  CHECK_FALSE(layer.scores_overflow_f16());
  CHECK_FALSE(std::isinf(f16_to_f32(f32_to_f16(65519.0F))));
  layer.largest_score = 65520;
  layer.largest_product = 8 * 65520;
  CHECK(layer.scores_overflow_f16());
  CHECK(std::isinf(f16_to_f32(f32_to_f16(65520.0F))));
  layer.largest_score = 1000;
  CHECK_FALSE(layer.scores_overflow_f16());
  CHECK(layer.products_overflow_f16());
}

TEST_CASE("a NaN planted in one head at one position is reported with its layer") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::llama);
  struct Plant {
    int layer, head, position;
    HealthStage stage;
  };
  for (const Plant& plant : {Plant{0, 0, 0, HealthStage::query}, Plant{1, 2, 7, HealthStage::query},
                             Plant{1, 3, 18, HealthStage::query}, Plant{0, 1, 5, HealthStage::key},
                             Plant{1, 0, 9, HealthStage::value}, Plant{1, 3, 4, HealthStage::output}}) {
    for (const bool decode : {false, true}) {
      CAPTURE(plant.layer, plant.head, plant.position, kHealthStageNames.name(plant.stage), decode);
      int calls = 0;
      // Plants into the tensors of its call, before or after what it wraps.
      const auto planting = [&](bool output) {
        return [&, output](AttentionBackend& inner, const AttentionProblem& problem,
                           const AttentionTensors& tensors, void* scores, void* workspace) {
          const int first = problem.kv_len - problem.q_len;
          const bool here =
              (calls++ % 2) == plant.layer && plant.position >= first && plant.position < problem.kv_len;
          const auto write = [&](const TensorView& view, std::int64_t token) {
            const TensorView place = view.slice(1, token, 1).slice(2, plant.head, 1);
            platform.device->upload(place.as<float>() + 2, &kNan, sizeof kNan);
          };
          if (here && plant.stage == HealthStage::query) write(tensors.q, plant.position - first);
          if (here && plant.stage == HealthStage::key) write(tensors.k, plant.position);
          if (here && plant.stage == HealthStage::value) write(tensors.v, plant.position);
          inner.forward(problem, tensors, scores, workspace);
          if (here && output) write(tensors.out, plant.position - first);
        };
      };
      const bool output = plant.stage == HealthStage::output;
      FaultAttention inner(platform.backend("reference"), planting(true));
      HealthAttention health(output ? inner : platform.backend("reference"), *platform.device, 2);
      FaultAttention outer(health, planting(false));
      run(platform, model, output ? static_cast<AttentionBackend&>(health) : outer,
          decode ? std::vector<int>(kTokens, 1) : std::vector<int>{kTokens});
      REQUIRE(health.first_nonfinite().has_value());
      const NonFiniteValue& found = *health.first_nonfinite();
      CHECK(found.layer == plant.layer);
      CHECK(found.head == plant.head);
      CHECK(found.position == plant.position);
      CHECK(found.stage == plant.stage);
      CHECK(found.pass == (decode ? plant.position : 0));
      CHECK(found.text().find(fmt::format("layer {}, head {}, position {}", plant.layer, plant.head,
                                          plant.position)) != std::string::npos);
      for (const LayerHealth& layer : health.layers()) CHECK(std::isfinite(layer.largest_score));
    }
  }
}

TEST_CASE("of several products beyond f32 the earliest query is named and not the largest product") {
  Platform platform = open_platform("cpu");
  test::HostDevice device;
  FaultAttention nothing = instead_of(platform);
  Call call({1, 6, 6, 2, 2, 2, DType::f32, 1.0F, true}, 4);
  for (int head = 0; head < 2; ++head) {
    call.k_at(0, 0, head, 0) = 1e30F;
    call.q_at(0, 5, head, 0) = 3e30F;
  }
  call.q_at(0, 3, 1, 0) = 1e30F;
  HealthAttention health(nothing, device, 1);
  health.forward(call.problem, call.tensors, nullptr, nullptr);
  REQUIRE(health.first_nonfinite().has_value());
  CHECK(health.first_nonfinite()->stage == HealthStage::score);
  CHECK(health.first_nonfinite()->position == 3);
  CHECK(health.first_nonfinite()->head == 1);
  CHECK(health.layers()[0].query == 5);
}

TEST_CASE("a product beyond f32 is reported as a score though its factors are finite") {
  Platform platform = open_platform("cpu");
  test::HostDevice device;
  FaultAttention nothing = instead_of(platform);
  Call call({2, 3, 3, 2, 2, 2, DType::f32, 1e-3F, true}, 4);
  call.q_at(1, 2, 1, 0) = 1e25F;
  call.k_at(1, 1, 1, 0) = 1e25F;
  HealthAttention health(nothing, device, 1);
  health.forward(call.problem, call.tensors, nullptr, nullptr);
  REQUIRE(health.first_nonfinite().has_value());
  CHECK(health.first_nonfinite()->stage == HealthStage::score);
  CHECK(health.first_nonfinite()->sequence == 1);
  CHECK(health.first_nonfinite()->head == 1);
  CHECK(health.first_nonfinite()->position == 2);
  CHECK(health.layers()[0].largest_score == Approx(1e47).epsilon(1e-6));
}

TEST_CASE("a pass that broke off can be forgotten and recorded work is refused") {
  Platform platform = open_platform("cpu");
  test::HostDevice device;
  FaultAttention nothing = instead_of(platform);
  Call call({1, 2, 2, 1, 1, 2, DType::f32, 1.0F, true}, 5);
  HealthAttention health(nothing, device, 3);
  for (int i = 0; i < 4; ++i) health.forward(call.problem, call.tensors, nullptr, nullptr);
  CHECK(health.passes() == 1);
  health.restart();
  call.q_at(0, 0, 0, 0) = kNan;
  health.forward(call.problem, call.tensors, nullptr, nullptr);
  CHECK(health.first_nonfinite()->layer == 0);
  CHECK(health.first_nonfinite()->pass == 1);
  const std::int32_t length = 0;
  call.tensors.past_len = &length;
  CHECK_THROWS_AS(health.forward(call.problem, call.tensors, nullptr, nullptr), Error);
}
