// Each operation of the GPU, in every element type, against the same operation of the CPU on the same
// numbers: odd and round sizes, strided rows, poison around and between.
#include "lib/backend/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/core/rng.h"
#include "lib/tensor/dtype_names.h"
#include "tests/backend_cuda/twin.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

class Position {
 public:
  Position(Platform& gpu, std::int32_t value) : value_(value) {
    buffer_ = gpu.device->allocate(4, MemoryUse::other);
    gpu.device->upload(buffer_.data(), &value, 4);
  }
  const std::int32_t* on_cpu() const { return &value_; }
  const std::int32_t* on_gpu() const { return static_cast<const std::int32_t*>(buffer_.data()); }

 private:
  std::int32_t value_;
  Buffer buffer_;
};

struct Ids {
  std::vector<std::int32_t> host;
  Tensor gpu;
  Ids(Platform& platform, std::vector<std::int32_t> ids) : host(std::move(ids)) {
    gpu = platform.device->allocate_tensor(DType::i32, {static_cast<std::int64_t>(host.size())},
                                           MemoryUse::other);
    platform.device->upload(gpu.view.data, host.data(), gpu.view.bytes());
  }
  std::vector<std::int32_t> download(Platform& platform) const {
    std::vector<std::int32_t> out(host.size());
    platform.device->download(out.data(), gpu.view.data, gpu.view.bytes());
    return out;
  }
  TensorView on_cpu() { return {host.data(), DType::i32, gpu.view.shape}; }
};

struct ProjectCase {
  std::int64_t rows, hidden, out, gap;
  NormKind norm;
  Activation activation;
  bool gated, bias;
};

void check_project(Platform& gpu, Platform& cpu, const ProjectCase& c, DType dtype) {
  CAPTURE(kDTypeNames.name(dtype), c.rows, c.hidden, c.out, static_cast<int>(c.activation), c.gated, c.bias);
  const std::int64_t weight_rows = c.out * (c.gated ? 2 : 1);
  const float wide = 1.0F / std::sqrt(static_cast<float>(c.hidden));
  Twin x = Twin(gpu, dtype, c.rows, c.hidden, c.gap).random(1, 1, 0.5F);
  Twin gain = Twin(gpu, dtype, 1, c.hidden).random(2, 0.2F, 1);
  Twin shift = Twin(gpu, dtype, 1, c.hidden).random(3, 0.2F);
  Twin weight = Twin(gpu, dtype, weight_rows, c.hidden, c.gap).random(4, wide);
  Twin bias = Twin(gpu, dtype, 1, weight_rows).random(5, 0.3F);
  Twin normed(gpu, dtype, c.rows + 2, c.hidden);
  Twin widened(gpu, dtype, c.rows, weight_rows);
  Twin out(gpu, dtype, c.rows, c.out, c.gap);
  const bool shifted = c.norm == NormKind::layer_norm;
  const NormWeights norm_cpu{c.norm, 1e-5F, gain.row_cpu(), shifted ? shift.row_cpu() : TensorView()};
  const NormWeights norm_gpu{c.norm, 1e-5F, gain.row_gpu(), shifted ? shift.row_gpu() : TensorView()};
  const LinearWeights linear_cpu = weight.linear_cpu(c.bias ? &bias : nullptr);
  const LinearWeights linear_gpu = weight.linear_gpu(c.bias ? &bias : nullptr);
  const ProjectTerm term_cpu{&norm_cpu, &linear_cpu, c.activation, c.gated, out.on_cpu()};
  const ProjectTerm term_gpu{&norm_gpu, &linear_gpu, c.activation, c.gated, out.on_gpu()};
  cpu.ops->project(x.on_cpu(), {&term_cpu, 1}, {normed.on_cpu(), widened.on_cpu()});
  gpu.ops->project(x.on_gpu(), {&term_gpu, 1}, {normed.on_gpu(), widened.on_gpu()});
  CHECK(out.difference() < tolerance(dtype));
}

void check_rope(Platform& gpu, Platform& cpu, DType dtype, std::int64_t batch, std::int64_t q_len,
                std::int64_t q_heads, std::int64_t kv_heads, std::int64_t head_dim, int rotary_dims,
                std::int32_t past, std::int64_t gap) {
  CAPTURE(kDTypeNames.name(dtype), batch, q_len, head_dim, rotary_dims, past, gap);
  constexpr std::int64_t kCapacity = 40;
  const std::int64_t heads = q_heads + 2 * kv_heads;
  Twin qkv = Twin(gpu, dtype, batch * q_len, heads * head_dim, gap).random(1);
  const std::int64_t half = std::max(rotary_dims / 2, 1);
  Twin cos = Twin(gpu, DType::f32, kCapacity, half).random(2);
  Twin sin = Twin(gpu, DType::f32, kCapacity, half).random(3);
  Twin keys(gpu, dtype, batch * kv_heads, kCapacity * head_dim);
  Twin values(gpu, dtype, batch * kv_heads, kCapacity * head_dim);
  const Position position(gpu, past);
  const auto cache = [&](const TensorView& memory) {  // head-major memory seen as [batch, token, head, dim]
    TensorView view(memory.data, memory.dtype, {batch, kCapacity, kv_heads, head_dim});
    view.strides = {kv_heads * kCapacity * head_dim, head_dim, kCapacity * head_dim, 1};
    return view;
  };
  const auto split = [&](const TensorView& memory) {
    TensorView view(memory.data, memory.dtype, {batch, q_len, heads, head_dim});
    view.strides = {q_len * memory.stride(0), memory.stride(0), head_dim, 1};
    return view;
  };
  RotaryTable table_cpu{rotary_dims, {}, {}};
  RotaryTable table_gpu{rotary_dims, {}, {}};
  if (rotary_dims > 0) {
    table_cpu = {rotary_dims, cos.on_cpu(), sin.on_cpu()};
    table_gpu = {rotary_dims, cos.on_gpu(), sin.on_gpu()};
  }
  cpu.ops->rope_and_append(split(qkv.on_cpu()), table_cpu, position.on_cpu(), cache(keys.on_cpu()),
                           cache(values.on_cpu()));
  gpu.ops->rope_and_append(split(qkv.on_gpu()), table_gpu, position.on_gpu(), cache(keys.on_gpu()),
                           cache(values.on_gpu()));
  CHECK(qkv.difference() < tolerance(dtype));
  CHECK(keys.difference() < tolerance(dtype));
  CHECK(values.difference() == 0);
}

}  // namespace

TEST_CASE("the GPU embeds as the CPU does") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const DType dtype : kDTypes) {
    for (const auto& [hidden, learned] :
         std::vector<std::pair<std::int64_t, bool>>{{64, true}, {61, true}, {96, false}, {768, true}}) {
      CAPTURE(kDTypeNames.name(dtype), hidden, learned);
      Twin tokens = Twin(gpu, dtype, 50, hidden).random(1);
      Twin positions = Twin(gpu, dtype, 30, hidden).random(2);
      Twin out(gpu, dtype, 2 * 7, hidden);
      Ids ids(gpu, {3, 0, 49, 7, 7, 1, 2, 48, 5, 6, 10, 11, 12, 13});
      const Position past(gpu, 9);
      EmbeddingWeights on_cpu{tokens.on_cpu(), learned ? positions.on_cpu() : TensorView()};
      EmbeddingWeights on_gpu{tokens.on_gpu(), learned ? positions.on_gpu() : TensorView()};
      cpu.ops->embed(on_cpu, ids.on_cpu().reshaped({2, 7}), past.on_cpu(),
                     out.on_cpu().reshaped({2, 7, hidden}));
      gpu.ops->embed(on_gpu, ids.gpu.view.reshaped({2, 7}), past.on_gpu(),
                     out.on_gpu().reshaped({2, 7, hidden}));
      CHECK(out.difference() < tolerance(dtype));
    }
  }
}

TEST_CASE("the GPU projects as the CPU does") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const DType dtype : kDTypes) {
    for (const std::int64_t rows : {1, 2, 5, 70}) {
      for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh,
                                          Activation::relu, Activation::silu}) {
        check_project(gpu, cpu, {rows, 64, 96, 8, NormKind::layer_norm, activation, false, true}, dtype);
        check_project(gpu, cpu, {rows, 61, 37, 3, NormKind::rms_norm, activation, false, false}, dtype);
        check_project(gpu, cpu, {rows, 64, 96, 0, NormKind::rms_norm, activation, true, false}, dtype);
        check_project(gpu, cpu, {rows, 61, 37, 5, NormKind::layer_norm, activation, true, true}, dtype);
      }
    }
    check_project(gpu, cpu, {3, 2560, 1000, 0, NormKind::layer_norm, Activation::gelu_erf, false, true},
                  dtype);
    // Rows of a norm that fit registers in one, two and four packs a thread, and ones that do not fit.
    for (const std::int64_t hidden : {2048, 4096, 5120, 8192, 12288, 16384, 20000}) {
      for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
        check_project(gpu, cpu, {9, hidden, 24, 8, norm, Activation::none, false, true}, dtype);
    }
  }
}

TEST_CASE("a parallel residual of the GPU is the CPU's") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const DType dtype : kDTypes) {
    for (const std::int64_t rows : {1, 9, 70}) {
      for (const bool beside : {true, false}) {
        for (const bool biased : {true, false}) {
          CAPTURE(kDTypeNames.name(dtype), rows, beside, biased);
          Twin x = Twin(gpu, dtype, rows, 56).random(1);
          Twin in = Twin(gpu, dtype, rows, 48 + 80, beside ? 0 : 8).random(2);
          Twin weight = Twin(gpu, dtype, 56, 48 + 80).random(3, 0.1F);
          Twin left_bias = Twin(gpu, dtype, 1, 56).random(4);
          Twin right_bias = Twin(gpu, dtype, 1, 56).random(5);
          // Not beside each other: the right half first.
          const auto run = [&](Ops& ops, const TensorView& stream, const TensorView& inputs,
                               const TensorView& weights, const TensorView& bias, const TensorView& second) {
            LinearWeights left{weights.slice(1, 0, 48), biased ? bias : TensorView()};
            LinearWeights right{weights.slice(1, 48, 80), biased ? second : TensorView()};
            AddTerm terms[] = {{inputs.slice(1, 0, 48), &left}, {inputs.slice(1, 48, 80), &right}};
            if (!beside) std::swap(terms[0], terms[1]);
            ops.project_add(stream, terms);
          };
          run(*cpu.ops, x.on_cpu(), in.on_cpu(), weight.on_cpu(), left_bias.row_cpu(), right_bias.row_cpu());
          run(*gpu.ops, x.on_gpu(), in.on_gpu(), weight.on_gpu(), left_bias.row_gpu(), right_bias.row_gpu());
          CHECK(x.difference() < tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("the GPU turns and appends as the CPU does") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const DType dtype : kDTypes) {
    check_rope(gpu, cpu, dtype, 1, 1, 2, 2, 8, 8, 0, 0);
    check_rope(gpu, cpu, dtype, 2, 3, 4, 2, 20, 8, 5, 6);
    check_rope(gpu, cpu, dtype, 1, 17, 3, 1, 80, 20, 13, 0);    // pairs of NeoX
    check_rope(gpu, cpu, dtype, 2, 17, 8, 2, 128, 128, 20, 8);  // packs of LLaMA
    check_rope(gpu, cpu, dtype, 3, 1, 6, 2, 33, 2, 29, 0);
    check_rope(gpu, cpu, dtype, 2, 4, 2, 2, 16, 0, 7, 0);  // GPT-2: nothing turns
  }
}

TEST_CASE("logits that are not finite make the GPU's loss of their row not finite") {
  ATTN_OPEN_GPU(gpu);
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::size_t vocab : {5, 700}) {
    for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> logits(2 * vocab, 0.5F);  // the second row is sound
      logits[vocab - 1] = bad;
      const Buffer place = gpu.device->allocate(logits.size() * 4, MemoryUse::other);
      gpu.device->upload(place.data(), logits.data(), logits.size() * 4);
      Ids targets(gpu, {0, 0});
      double losses[2];
      const Buffer room = gpu.device->allocate(sizeof losses, MemoryUse::other);
      gpu.ops->token_losses({place.data(), DType::f32, {2, static_cast<std::int64_t>(vocab)}},
                            targets.gpu.view, static_cast<double*>(room.data()));
      gpu.device->download(losses, room.data(), sizeof losses);
      CAPTURE(vocab, bad);
      CHECK(!std::isfinite(losses[0]));
      CHECK(losses[1] == Approx(std::log(static_cast<double>(vocab))));
    }
  }
}

TEST_CASE("logits and losses of the GPU are the CPU's") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const DType dtype : kDTypes) {
    for (const std::int64_t vocab : {5, 203, 50257}) {
      CAPTURE(kDTypeNames.name(dtype), vocab);
      Twin x = Twin(gpu, dtype, 4, 64, 64).random(1);
      Twin gain = Twin(gpu, dtype, 1, 64).random(2, 0.2F, 1);
      Twin head = Twin(gpu, dtype, vocab, 64).random(3, 0.3F);
      Twin normed(gpu, dtype, 4, 64);
      Twin out(gpu, DType::f32, 4, vocab, 3);
      const NormWeights norm_cpu{NormKind::rms_norm, 1e-5F, gain.row_cpu(), {}};
      const NormWeights norm_gpu{NormKind::rms_norm, 1e-5F, gain.row_gpu(), {}};
      cpu.ops->logits(x.on_cpu(), norm_cpu, {head.on_cpu(), {}}, normed.on_cpu(), out.on_cpu());
      gpu.ops->logits(x.on_gpu(), norm_gpu, {head.on_gpu(), {}}, normed.on_gpu(), out.on_gpu());
      CHECK(out.difference() < tolerance(dtype));

      Twin scores = Twin(gpu, DType::f32, 4, vocab, 3).random(6, 3, dtype == DType::f16 ? 1e4F : -3);
      Ids targets(gpu, {0, static_cast<std::int32_t>(vocab - 1), -1, static_cast<std::int32_t>(vocab / 2)});
      double expected[4];
      double losses[4];
      const Buffer room = gpu.device->allocate(sizeof losses, MemoryUse::other);
      cpu.ops->token_losses(scores.on_cpu(), targets.on_cpu(), expected);
      gpu.ops->token_losses(scores.on_gpu(), targets.gpu.view, static_cast<double*>(room.data()));
      gpu.device->download(losses, room.data(), sizeof losses);
      for (int r = 0; r < 4; ++r) CHECK(losses[r] == Approx(expected[r]).margin(1e-5));
    }
  }
}

TEST_CASE("the GPU picks the tokens that the CPU picks") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  constexpr std::int64_t kRows = 6;
  int differing = 0;
  int picked = 0;
  for (const std::int64_t vocab : {1, 7, 1000, 50257}) {
    Twin logits = Twin(gpu, DType::f32, kRows, vocab, 5).random(static_cast<std::uint64_t>(vocab), 2);
    for (const auto& [temperature, top_k, top_p] :
         std::vector<std::tuple<float, int, float>>{{0.0F, 0, 1.0F},
                                                    {1.0F, 0, 1.0F},
                                                    {0.5F, 1, 1.0F},
                                                    {0.8F, 40, 1.0F},
                                                    {1.0F, 0, 0.9F},
                                                    {1.3F, 200, 0.5F},
                                                    {0.7F, 5, 0.99F},
                                                    {1.0F, 0, 0.01F}}) {
      for (std::int32_t position : {0, 1, 77}) {
        CAPTURE(vocab, temperature, top_k, top_p, position);
        const Position past(gpu, position);
        SamplingConfig sampling;
        sampling.temperature = temperature;
        sampling.top_k = top_k;
        sampling.top_p = top_p;
        sampling.seed = 12345;
        Ids next(gpu, std::vector<std::int32_t>(kRows, -1));
        cpu.ops->pick_token(logits.on_cpu(), sampling, past.on_cpu(), next.on_cpu());
        gpu.ops->pick_token(logits.on_gpu(), sampling, past.on_gpu(), next.gpu.view);
        const auto ours = next.download(gpu);
        for (std::size_t r = 0; r < ours.size(); ++r) {
          CHECK(ours[r] >= 0);
          CHECK(ours[r] < vocab);
          ++picked;
          differing += ours[r] != next.host[r];
          if (temperature == 0 || top_k == 1) CHECK(ours[r] == next.host[r]);
        }
      }
    }
  }
  CAPTURE(picked);
  CHECK(differing <= 1);  // a mark within a rounding of a border may fall on its other side
}

TEST_CASE("ties and numbers that are none are picked by the GPU as by the CPU") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& row : std::vector<std::vector<float>>{{nan, -inf, -1, nan, nan},
                                                                       {nan, nan, nan, nan, nan},
                                                                       {-inf, -inf, -inf, -inf, -inf},
                                                                       {1, 2, inf, 0, inf},
                                                                       {1, 1, 1, 1, 1},
                                                                       {0.0F, -0.0F, 0.0F, -1, -0.0F},
                                                                       {5, 2, 5, 2, 5}}) {
    const Buffer place = gpu.device->allocate(row.size() * 4, MemoryUse::other);
    gpu.device->upload(place.data(), row.data(), row.size() * 4);
    for (const auto& [temperature, top_k, top_p] : std::vector<std::tuple<float, int, float>>{
             {0.0F, 0, 1.0F}, {1.0F, 0, 1.0F}, {1.0F, 2, 1.0F}, {1.0F, 0, 0.5F}, {1.0F, 4, 0.7F}}) {
      for (std::int32_t position = 0; position < 12; ++position) {
        CAPTURE(row, temperature, top_k, top_p, position);
        const Position past(gpu, position);
        SamplingConfig sampling;
        sampling.temperature = temperature;
        sampling.top_k = top_k;
        sampling.top_p = top_p;
        Ids next(gpu, {-1});
        std::vector<float> copy = row;
        cpu.ops->pick_token({copy.data(), DType::f32, {1, 5}}, sampling, past.on_cpu(), next.on_cpu());
        gpu.ops->pick_token({place.data(), DType::f32, {1, 5}}, sampling, past.on_gpu(), next.gpu.view);
        CHECK(next.download(gpu) == next.host);
      }
    }
  }
}

TEST_CASE("more rows than a grid is high and more logits than 32 bits count are reached") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  check_project(gpu, cpu, {70000, 16, 8, 0, NormKind::layer_norm, Activation::silu, false, true},
                DType::bf16);

  constexpr std::int64_t kRows = 17000;
  constexpr std::int64_t kVocab = 128256;
  Tensor logits;
  try {
    logits = gpu.device->allocate_tensor(DType::f32, {kRows, kVocab}, MemoryUse::logits);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    ATTN_SKIP("the GPU has no 9 GB to spare");
  }
  gpu.device->fill_zero(logits.view.data, logits.view.bytes());
  const float ten = 10;
  gpu.device->upload(logits.view.as<float>() + logits.view.shape.elements() - 1, &ten, 4);
  std::vector<std::int32_t> ids(kRows, 0);
  ids.back() = kVocab - 1;
  Ids targets(gpu, ids);
  std::vector<double> losses(kRows, -1);
  const Buffer room = gpu.device->allocate(losses.size() * 8, MemoryUse::other);
  gpu.ops->token_losses(logits.view, targets.gpu.view, static_cast<double*>(room.data()));
  gpu.device->download(losses.data(), room.data(), room.bytes());
  for (std::size_t r = 0; r + 1 < losses.size(); ++r)
    REQUIRE(losses[r] == Approx(std::log(double{kVocab})).epsilon(1e-6));
  CHECK(losses.back() == Approx(std::log(kVocab - 1 + std::exp(10.0)) - 10).epsilon(1e-6));
  const Position past(gpu, 0);
  Ids next(gpu, std::vector<std::int32_t>(kRows, -1));
  gpu.ops->pick_token(logits.view, {}, past.on_gpu(), next.gpu.view);
  const auto picked = next.download(gpu);
  CHECK(picked.front() == 0);
  CHECK(picked.back() == kVocab - 1);
}
