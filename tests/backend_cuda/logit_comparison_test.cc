// The GPU's comparison of logits against the CPU's, on the same numbers.
#include <cstring>
#include <utility>

#include "lib/backend/ops.h"
#include "tests/backend_cuda/twin.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

// [rows, vocab] f32 in ordinary memory, rows `gap` apart, beginning `offset` elements into it, NaN elsewhere.
struct Logits {
  std::int64_t rows, vocab, step, offset;
  std::vector<float> data;

  Logits(std::int64_t row_count, std::int64_t size, std::int64_t gap = 0, std::int64_t start = 0)
      : rows(row_count),
        vocab(size),
        step(size + gap),
        offset(start),
        data(static_cast<std::size_t>(start + row_count * (size + gap)),
             std::numeric_limits<float>::quiet_NaN()) {}
  float& at(std::int64_t r, std::int64_t c) { return data[static_cast<std::size_t>(offset + r * step + c)]; }
  TensorView view(float* memory) const {
    TensorView out(memory + offset, DType::f32, {rows, vocab});
    out.strides[0] = step;
    return out;
  }
};

struct OnGpu {
  Buffer buffer;
  TensorView view;
  OnGpu(Platform& gpu, Logits& logits)
      : buffer(gpu.device->allocate(logits.data.size() * 4, MemoryUse::logits)),
        view(logits.view(static_cast<float*>(buffer.data()))) {
    gpu.device->upload(buffer.data(), logits.data.data(), buffer.bytes());
  }
};

std::vector<LogitComparison> compare_on_gpu(Platform& gpu, const TensorView& base, const TensorView& other,
                                            const std::vector<std::int32_t>& targets) {
  const auto rows = static_cast<std::size_t>(base.extent(0));
  std::vector<LogitComparison> out(rows);
  const Buffer room = gpu.device->allocate(rows * sizeof(LogitComparison), MemoryUse::other);
  const Buffer ids = gpu.device->allocate(rows * 4, MemoryUse::other);
  TensorView ids_view;
  if (!targets.empty()) {
    gpu.device->upload(ids.data(), targets.data(), rows * 4);
    ids_view = {ids.data(), DType::i32, {base.extent(0)}};
  }
  gpu.ops->compare_logits(base, other, ids_view, static_cast<LogitComparison*>(room.data()));
  gpu.device->download(out.data(), room.data(), room.bytes());
  return out;
}

std::vector<LogitComparison> compare_on_cpu(Platform& cpu, Logits& base, Logits& other,
                                            std::vector<std::int32_t> targets) {
  std::vector<LogitComparison> out(static_cast<std::size_t>(base.rows));
  TensorView ids;
  if (!targets.empty()) ids = {targets.data(), DType::i32, {base.rows}};
  cpu.ops->compare_logits(base.view(base.data.data()), other.view(other.data.data()), ids, out.data());
  return out;
}

bool same(const LogitComparison& a, const LogitComparison& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Both sum in f64 in another order, so what is a sum may differ by roundings, and the rest not at all. Losses
// and probabilities carry the rounding of the norm, which has the size of the logits.
void check_row(const LogitComparison& gpu, const LogitComparison& cpu) {
  CHECK(gpu.first_nonfinite == cpu.first_nonfinite);
  CHECK(gpu.base_argmax == cpu.base_argmax);
  CHECK(gpu.other_argmax == cpu.other_argmax);
  CHECK(gpu.target == cpu.target);
  CHECK(gpu.max_diff == cpu.max_diff);
  CHECK(gpu.top5_shared == cpu.top5_shared);
  CHECK(gpu.mean_diff == Approx(cpu.mean_diff).epsilon(1e-12));
  CHECK(gpu.kl == Approx(cpu.kl).epsilon(1e-9).margin(1e-20));
  CHECK(gpu.js == Approx(cpu.js).epsilon(1e-9).margin(1e-20));
  CHECK(gpu.base_loss == Approx(cpu.base_loss).epsilon(1e-12).margin(1e-13));
  CHECK(gpu.other_loss == Approx(cpu.other_loss).epsilon(1e-12).margin(1e-13));
  CHECK(gpu.delta_p == Approx(cpu.delta_p).epsilon(1e-9).margin(1e-13));
}

// Rows: close ones, far ones, equal ones, ties, tiny noise.
std::pair<Logits, Logits> mixed_rows(std::int64_t vocab, std::int64_t gap, std::int64_t offset) {
  constexpr std::int64_t kRows = 7;
  const float noise[kRows] = {1e-5F, 1e-2F, 0.3F, 10, 0, 0, 1e-6F};
  Logits base(kRows, vocab, gap, offset);
  Logits other(kRows, vocab, gap / 2, offset / 2);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < vocab; ++c) {
      const auto row = static_cast<std::uint64_t>(r);
      const auto column = static_cast<std::uint64_t>(c);
      float value = 3 * random_normal(11, row, column);
      if (r == 5) value = static_cast<float>(c * 7 % 3);  // a third of the row is its maximum
      base.at(r, c) = value;
      other.at(r, c) = value + noise[r] * random_normal(12, row, column);
      if (r == 5 && c == 0) other.at(r, c) = 2;
    }
  }
  return {base, other};
}

}  // namespace

TEST_CASE("the GPU compares logits as the CPU does") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const std::int64_t vocab : {1, 2, 4, 5, 31, 1000, 1024, 50257, 50304, 128256}) {
    for (const auto& [gap, offset] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {16, 8}, {5, 3}}) {
      auto [base, other] = mixed_rows(vocab, gap, offset);
      const std::vector<std::int32_t> targets = {0,
                                                 static_cast<std::int32_t>(vocab - 1),
                                                 static_cast<std::int32_t>(vocab / 2),
                                                 -1,
                                                 0,
                                                 static_cast<std::int32_t>(vocab / 3),
                                                 -5};
      const OnGpu base_gpu(gpu, base);
      const OnGpu other_gpu(gpu, other);
      for (const bool with_targets : {true, false}) {
        const auto given = with_targets ? targets : std::vector<std::int32_t>();
        const auto ours = compare_on_gpu(gpu, base_gpu.view, other_gpu.view, given);
        const auto theirs = compare_on_cpu(cpu, base, other, given);
        for (std::size_t r = 0; r < ours.size(); ++r) {
          CAPTURE(vocab, gap, offset, with_targets, r);
          check_row(ours[r], theirs[r]);
        }
        CHECK(ours[4].kl == 0);
        CHECK(ours[4].js == 0);
        CHECK(ours[4].delta_p == 0);
        CHECK(ours[4].base_loss == ours[4].other_loss);
      }
    }
  }
}

TEST_CASE("the GPU finds the first logit that is not finite on either side") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t vocab : {3, 1000, 50257}) {
    Logits base(8, vocab);
    Logits other(8, vocab);
    for (std::int64_t r = 0; r < 8; ++r) {
      for (std::int64_t c = 0; c < vocab; ++c) {
        base.at(r, c) = static_cast<float>(c % 17);
        other.at(r, c) = base.at(r, c) + 0.01F * static_cast<float>(c % 3);
      }
    }
    base.at(0, vocab - 1) = nan;
    other.at(1, 0) = nan;
    base.at(2, 1) = -inf;
    other.at(3, vocab / 2) = inf;
    base.at(4, 2) = inf;
    other.at(4, 1) = -inf;
    for (std::int64_t c = 0; c < vocab; ++c) base.at(5, c) = other.at(5, c) = -inf;
    for (std::int64_t c = 0; c < vocab; ++c) base.at(6, c) = nan;
    const std::vector<std::int32_t> targets(8, 1);
    const auto ours = compare_on_gpu(gpu, OnGpu(gpu, base).view, OnGpu(gpu, other).view, targets);
    const auto theirs = compare_on_cpu(cpu, base, other, targets);
    for (std::size_t r = 0; r < 7; ++r) {
      CAPTURE(vocab, r);
      CHECK(ours[r].first_nonfinite >= 0);
      CHECK(same(ours[r], theirs[r]));
    }
    check_row(ours[7], theirs[7]);  // its neighbours do not matter
  }
}

TEST_CASE("the GPU compares logits as large as f32 has them") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  Logits base(3, 3);
  Logits other(3, 3);
  base.data = {3e38F, -3e38F, 0, 0.0F, -0.0F, -0.0F, 1e4F, 9990, -3.4028235e38F};
  other.data = {-3e38F, 3e38F, 0, -0.0F, 0.0F, -0.0F, 10001, 9990, -3.4028235e38F};
  const std::vector<std::int32_t> targets = {0, 1, 2};
  const auto ours = compare_on_gpu(gpu, OnGpu(gpu, base).view, OnGpu(gpu, other).view, targets);
  const auto theirs = compare_on_cpu(cpu, base, other, targets);
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    check_row(ours[r], theirs[r]);
  }
  CHECK(ours[0].js <= std::log(2.0));
  CHECK(ours[0].js == Approx(std::log(2.0)));
  CHECK(ours[1].kl == 0);  // -0 and 0 are equal
  CHECK(ours[1].other_argmax == 0);
}

TEST_CASE("the GPU compares the same logits to the same bits every time and wherever they lie") {
  ATTN_OPEN_GPU(gpu);
  constexpr std::int64_t kVocab = 50257;
  auto [base, other] = mixed_rows(kVocab, 7, 4);
  const OnGpu base_gpu(gpu, base);
  const OnGpu other_gpu(gpu, other);
  const std::vector<std::int32_t> targets = {0, 1, 2, 3, 4, 5, 6};
  const auto first = compare_on_gpu(gpu, base_gpu.view, other_gpu.view, targets);
  int different = 0;
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const auto again = compare_on_gpu(gpu, base_gpu.view, other_gpu.view, targets);
    for (std::size_t r = 0; r < first.size(); ++r) different += !same(again[r], first[r]);
  }
  CHECK(different == 0);
  auto [base_moved, other_moved] = mixed_rows(kVocab, 3, 0);
  const auto moved = compare_on_gpu(gpu, OnGpu(gpu, base_moved).view, OnGpu(gpu, other_moved).view, targets);
  for (std::size_t r = 0; r < first.size(); ++r) {
    CAPTURE(r);
    CHECK(same(moved[r], first[r]));
  }
  // Each row alone, as the scorer's blocks may cut them.
  for (std::int64_t r = 0; r < base.rows; ++r) {
    CAPTURE(r);
    const auto alone = compare_on_gpu(gpu, base_gpu.view.slice(0, r, 1), other_gpu.view.slice(0, r, 1),
                                      {targets[static_cast<std::size_t>(r)]});
    CHECK(same(alone[0], first[static_cast<std::size_t>(r)]));
  }
}
