// Every attention backend of a GPU against the conformance table, in f32, f16 and bf16.
#include <cmath>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"
#include "tests/conformance/attention_cases.h"
#include "tests/conformance/attention_checks.h"
#include "tests/conformance/grid_check.h"
#include "tests/download_numbers.h"
#include "tests/gpu.h"

using namespace attn;
using namespace attn::conformance;

namespace {

void expect_none(const Failures& failures) {
  for (std::size_t i = 0; i < failures.size() && i < 10; ++i) UNSCOPED_INFO(failures[i]);
  CHECK(failures.empty());
}

// Random q, k, v as a dense tensor each, and two outputs.
struct Memory {
  Tensor q, k, v, ours, truth, ours_lse, truth_lse;
  Buffer scores, workspace;
};

Tensor random_tensor(Device& device, DType dtype, const Shape& shape, std::uint64_t stream) {
  Tensor tensor = device.allocate_tensor(dtype, shape, MemoryUse::other);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(3, stream, i);
  std::vector<char> bits(tensor.view.bytes());
  convert_elements(values.data(), DType::f32, bits.data(), dtype, values.size());
  device.upload(tensor.view.data, bits.data(), bits.size());
  return tensor;
}

Memory memory_of(Platform& platform, const AttentionProblem& p, const AttentionBackend& backend) {
  Device& device = *platform.device;
  Memory m;
  const Shape queries{p.batch, p.q_len, p.q_heads, p.head_dim};
  m.q = random_tensor(device, p.dtype, queries, 0);
  m.k = random_tensor(device, p.dtype, {p.batch, p.kv_len, p.kv_heads, p.head_dim}, 1);
  m.v = random_tensor(device, p.dtype, {p.batch, p.kv_len, p.kv_heads, p.head_dim}, 2);
  m.ours = device.allocate_tensor(p.dtype, queries, MemoryUse::other);
  m.truth = device.allocate_tensor(p.dtype, queries, MemoryUse::other);
  m.ours_lse = device.allocate_tensor(DType::f32, {p.batch, p.q_heads, p.q_len}, MemoryUse::other);
  m.truth_lse = device.allocate_tensor(DType::f32, {p.batch, p.q_heads, p.q_len}, MemoryUse::other);
  m.scores = device.allocate(backend.scratch(p).scores_bytes, MemoryUse::scores);
  m.workspace = device.allocate(backend.scratch(p).workspace_bytes, MemoryUse::workspace);
  return m;
}

// ||ours - truth|| / ||truth||, where a NaN never passes.
double relative_error(const std::vector<float>& ours, const std::vector<float>& truth) {
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    squares += difference * difference;
    size += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return std::sqrt(squares / size);
}

void check_at_size(Platform& platform, const std::string& mode, AttentionProblem p) {
  p.scale = 1.0F / std::sqrt(static_cast<float>(p.head_dim));
  CAPTURE(mode, p.text());
  AttentionBackend& backend = platform.backend(mode);
  const Memory m = memory_of(platform, p, backend);
  backend.forward(p, {m.q.view, m.k.view, m.v.view, m.ours.view, m.ours_lse.view}, m.scores.data(),
                  m.workspace.data());
  platform.backend("reference")
      .forward(p, {m.q.view, m.k.view, m.v.view, m.truth.view, m.truth_lse.view}, nullptr, nullptr);
  // Scores of 16 bits carry their own rounding into the lse.
  const bool kept = backend.kernel_for(p).find("16scores") != std::string::npos;
  const double unit = p.dtype == DType::f32 ? 1e-6 : p.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  CHECK(relative_error(numbers(*platform.device, m.ours.view), numbers(*platform.device, m.truth.view)) <
        2 * unit);
  CHECK(relative_error(numbers(*platform.device, m.ours_lse.view),
                       numbers(*platform.device, m.truth_lse.view)) < (kept ? unit : 1e-5));
}

}  // namespace

TEST_CASE("every attention kernel of the GPU agrees with the definition in double") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention) expect_none(check_against_definition(platform, *backend));
}

TEST_CASE("every shape of the grid agrees with the reference by both criteria") {
  ATTN_OPEN_GPU(platform);
  for (const char* mode : {"baseline", "flash"}) {
    const GridResult result = check_grid(platform, platform.backend(mode), {});
    CAPTURE(mode, result.checked);
    expect_none(result.failures);
    CHECK(result.checked > (mode == std::string("flash") ? 800 : 100));
  }
}

TEST_CASE("a thousand runs of attention on the GPU give the same bits") {
  ATTN_OPEN_GPU(platform);
  for (const char* mode : {"baseline", "flash"})
    expect_none(check_repeats(platform, platform.backend(mode), 1000, {40, 64, 80, 96, 128, 256}));
  expect_none(check_repeats(platform, platform.backend("reference"), 1000, {64}));
}

TEST_CASE("queries that see no key give zero and an lse of minus infinity on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention)
    expect_none(check_no_keys(platform, *backend, {20, 64, 80, 96, 128, 256}));
}

TEST_CASE("equal scores give the mean of the values and an lse of ln n on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention)
    expect_none(check_equal_scores(platform, *backend, {20, 64, 80, 256}));
}

TEST_CASE("one key gives its value bit for bit on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention)
    expect_none(check_one_key(platform, *backend, {20, 64, 80, 96, 128, 256}));
}

TEST_CASE("every query head reads the key head of its group on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention)
    expect_none(check_groups(platform, *backend, {20, 64, 80, 96, 128, 256}));
}

// For compute-sanitizer, which is 10 to 100 times slower: each kernel of mode flash once or twice.
TEST_CASE("the smallest shapes of every kernel agree with the definition") {
  ATTN_OPEN_GPU(platform);
  AttentionBackend& backend = platform.backend("flash");
  expect_none(check_repeats(platform, backend, 2, {40, 64, 80, 96, 128, 256}));
  expect_none(check_one_key(platform, backend, {64}));
}

TEST_CASE("a sequence alone gives on the GPU what it gives in a batch") {
  ATTN_OPEN_GPU(platform);
  // cuBLAS chooses its kernel by the batch, and the number of splits of a decode step depends on it too.
  for (const auto& backend : platform.attention)
    expect_none(check_batch_independence(platform, *backend, backend->name() == "reference"));
}

TEST_CASE("the last query of a prefill on the GPU is a decode step") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention)
    expect_none(check_prefill_equals_decode(platform, *backend, {80, 256}));
}

TEST_CASE("sizes of real models agree with the reference on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const char* mode : {"baseline", "flash"}) {
      for (const int head_dim : {64, 80, 96, 128, 256}) {
        check_at_size(platform, mode, {1, 1023, 1023, 4, 4, head_dim, dtype, 0, true});
        check_at_size(platform, mode, {2, 577, 1500, 8, 2, head_dim, dtype, 0, true});
        check_at_size(platform, mode, {3, 1, 4501, 8, 2, head_dim, dtype, 0, true});
        check_at_size(platform, mode, {33, 1, 700, 4, 4, head_dim, dtype, 0, true});
        check_at_size(platform, mode, {1, 16, 2000, 8, 8, head_dim, dtype, 0, false});
      }
    }
  }
  check_at_size(platform, "flash", {1, 777, 777, 4, 2, 80, DType::f32, 0, true});
}

TEST_CASE("mode baseline with scores in f32 agrees with the definition in every dtype") {
  ATTN_OPEN_GPU(narrow);
  PlatformOptions options;
  options.baseline_scores = BaselineScores::f32;
  Platform platform = open_platform("cuda", options);
  AttentionBackend& backend = platform.backend("baseline");
  for (const KernelRow& row : backend.kernels()) CHECK(row.name.find("_f32scores") != std::string::npos);
  expect_none(check_against_definition(platform, backend));
  expect_none(check_prefill_equals_decode(platform, backend, {64}));
  AttentionProblem p{1, 128, 1024, 4, 4, 80, DType::bf16, 0.1F, true};
  CHECK(backend.scratch(p).scores_bytes == 2 * narrow.backend("baseline").scratch(p).scores_bytes);
  check_at_size(platform, "baseline", {1, 1023, 1023, 4, 4, 80, DType::bf16, 0, true});
}

TEST_CASE("the softmax of mode baseline is right at every length where its kernel changes") {
  ATTN_OPEN_GPU(narrow);
  PlatformOptions options;
  options.baseline_scores = BaselineScores::f32;
  Platform wide = open_platform("cuda", options);
  for (const int keys :
       {255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 3073, 4096, 4097, 8191, 8192, 8193, 20001}) {
    for (const bool causal : {true, false}) {
      check_at_size(narrow, "baseline", {1, 5, keys, 2, 1, 64, DType::bf16, 0, causal});
      check_at_size(wide, "baseline", {1, 5, keys, 2, 1, 64, DType::bf16, 0, causal});
    }
    check_at_size(narrow, "baseline", {1, 70, keys, 2, 2, 64, DType::f16, 0, true});
    check_at_size(narrow, "baseline", {1, 3, keys, 1, 1, 64, DType::f32, 0, true});
  }
}

TEST_CASE("mode baseline takes the number of keys from the device") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  AttentionBackend& backend = platform.backend("baseline");
  constexpr int kBound = 512;
  for (const int batch : {1, 3}) {
    for (const int queries : {1, 70}) {
      for (const int keys : {70, 271, 511, 512}) {
        CAPTURE(batch, queries, keys);
        AttentionProblem p{batch, queries, kBound, 4, 2, 64, DType::bf16, 0.125F, true};
        const Memory m = memory_of(platform, p, backend);
        const std::int32_t past = keys - queries;
        const Buffer length = device.allocate(sizeof past, MemoryUse::other);
        device.upload(length.data(), &past, sizeof past);
        AttentionTensors tensors{m.q.view, m.k.view, m.v.view, m.ours.view, m.ours_lse.view};
        tensors.past_len = static_cast<const std::int32_t*>(length.data());
        backend.forward(p, tensors, m.scores.data(), m.workspace.data());
        p.kv_len = keys;
        platform.backend("reference")
            .forward(p,
                     {m.q.view, m.k.view.slice(1, 0, keys), m.v.view.slice(1, 0, keys), m.truth.view,
                      m.truth_lse.view},
                     nullptr, nullptr);
        CHECK(relative_error(numbers(device, m.ours.view), numbers(device, m.truth.view)) < 2 * 0x1p-8);
        CHECK(relative_error(numbers(device, m.ours_lse.view), numbers(device, m.truth_lse.view)) < 0x1p-8);
      }
    }
  }
}

// Class 8 of kernels/README.md: a grid is at most 65535 blocks high and deep.
TEST_CASE("more sequences and heads than a grid is high are all computed") {
  ATTN_OPEN_GPU(platform);
  for (const char* mode : {"baseline", "flash"}) {
    check_at_size(platform, mode, {70000, 1, 1, 1, 1, 64, DType::bf16, 0, true});
    check_at_size(platform, mode, {33000, 17, 17, 2, 1, 64, DType::bf16, 0, true});
  }
  check_at_size(platform, "flash", {70000, 2, 3, 1, 1, 16, DType::f32, 0, true});
}

TEST_CASE("flash never asks for scores on the GPU") {
  ATTN_OPEN_GPU(platform);
  for (const Case& test : attention_cases()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      AttentionProblem p = test.problem;
      p.dtype = dtype;
      CHECK(platform.backend("flash").scratch(p).scores_bytes == 0);
    }
  }
}

TEST_CASE("scratch never shrinks with the keys") {
  ATTN_OPEN_GPU(platform);
  for (const auto& backend : platform.attention) {
    for (const int batch : {1, 8}) {
      AttentionScratch last;
      for (int keys = 1; keys < 5000; keys += 7) {
        AttentionProblem p{batch, 1, keys, 32, 8, 128, DType::bf16, 0.1F, true};
        const AttentionScratch now = backend->scratch(p);
        REQUIRE(now.scores_bytes >= last.scores_bytes);
        REQUIRE(now.workspace_bytes >= last.workspace_bytes);
        last = now;
      }
    }
  }
}

TEST_CASE("what no kernel of mode flash can do is refused in words") {
  ATTN_OPEN_GPU(platform);
  AttentionProblem p;
  p.head_dim = 257;
  p.scale = 1;
  const auto reason = platform.backend("flash").why_not(p);
  REQUIRE(reason.has_value());
  CHECK(reason->find("257") != std::string::npos);
}
