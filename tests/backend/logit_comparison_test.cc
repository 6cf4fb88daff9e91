// The CPU's comparison of logits as an operation: rows, strides, targets, threads. The figures themselves are
// tested in tests/eval/divergence_test.cc.
#include "lib/backend/logit_comparison.h"

#include <cstring>

#include <omp.h>

#include "lib/core/error.h"
#include "tests/backend/matrix.h"
#include "tests/catch.h"

using namespace attn;
using namespace attn::ops_test;

namespace {

bool same(const LogitComparison& a, const LogitComparison& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::vector<LogitComparison> compare(Ops& ops, Matrix& base, Matrix& other, const TensorView& targets) {
  std::vector<LogitComparison> out(static_cast<std::size_t>(base.rows));
  for (LogitComparison& row : out) row.kl = -1;
  ops.compare_logits(base.view(), other.view(), targets, out.data());
  return out;
}

}  // namespace

TEST_CASE("compared logits are those of each row with whatever stride and number of threads") {
  Fixture f;
  for (const std::int64_t vocab : {1, 5, 31, 1000}) {
    Matrix base = Matrix(9, vocab, 7).random(1, 3);
    Matrix other = Matrix(9, vocab, 2).random(2, 0.1F);
    for (std::int64_t r = 0; r < 9; ++r) {
      for (std::int64_t c = 0; c < vocab; ++c) other.at(r, c) += base.at(r, c);
    }
    for (std::int64_t c = 0; c < vocab; ++c) other.at(3, c) = base.at(3, c);
    other.at(6, vocab / 2) = -std::numeric_limits<float>::infinity();
    std::vector<std::int32_t> targets(18, static_cast<std::int32_t>(vocab - 1));
    targets[4] = -1;
    TensorView every_second(targets.data(), DType::i32, {9});
    every_second.strides[0] = 2;
    const std::vector<LogitComparison> rows = compare(f.ops, base, other, every_second);
    for (std::int64_t r = 0; r < 9; ++r) {
      CAPTURE(vocab, r);
      const LogitComparison expected =
          compare_logit_rows(&base.at(r, 0), &other.at(r, 0), vocab, r == 2 ? -1 : targets.back());
      CHECK(same(rows[r], expected));
      CHECK(rows[r].target == (r == 2 || r == 6 ? -1 : vocab - 1));
      CHECK(rows[r].first_nonfinite == (r == 6 ? vocab / 2 : -1));
    }
    CHECK(rows[3].kl == 0);
    CHECK(rows[3].js == 0);
    CHECK(rows[3].max_diff == 0);
    CHECK(rows[3].top5_shared == 1);
    CHECK(rows[3].base_argmax == rows[3].other_argmax);
    CHECK(rows[3].base_loss == rows[3].other_loss);
    for (const int threads : {1, 2, 5}) {
      const int before = omp_get_max_threads();
      omp_set_num_threads(threads);
      const std::vector<LogitComparison> again = compare(f.ops, base, other, every_second);
      omp_set_num_threads(before);
      for (std::size_t r = 0; r < 9; ++r) CHECK(same(again[r], rows[r]));
    }
  }
}

TEST_CASE("compared logits need no targets") {
  Fixture f;
  Matrix base = Matrix(3, 40).random(1);
  Matrix other = Matrix(3, 40).random(2);
  std::vector<std::int32_t> none(3, -1);
  const auto with = compare(f.ops, base, other, {none.data(), DType::i32, {3}});
  const auto without = compare(f.ops, base, other, {});
  for (std::size_t r = 0; r < 3; ++r) {
    CHECK(same(with[r], without[r]));
    CHECK(with[r].target == -1);
    CHECK(with[r].base_loss == 0);
    CHECK(with[r].delta_p == 0);
    CHECK(with[r].kl > 0);
  }
}

TEST_CASE("losses of compared rows are the token losses") {
  Fixture f;
  Matrix base = Matrix(4, 500).random(1, 4);
  Matrix other = Matrix(4, 500).random(2, 4);
  std::vector<std::int32_t> targets = {0, 499, 3, 250};
  const TensorView view(targets.data(), DType::i32, {4});
  const auto rows = compare(f.ops, base, other, view);
  std::vector<double> losses(4);
  f.ops.token_losses(base.view(), view, losses.data());
  for (std::size_t r = 0; r < 4; ++r) CHECK(rows[r].base_loss == Approx(losses[r]).epsilon(1e-6));
  f.ops.token_losses(other.view(), view, losses.data());
  for (std::size_t r = 0; r < 4; ++r) CHECK(rows[r].other_loss == Approx(losses[r]).epsilon(1e-6));
}

TEST_CASE("logits of different shapes are not compared") {
  Fixture f;
  Matrix base = Matrix(3, 40).random(1);
  Matrix narrow = Matrix(3, 39).random(1);
  Matrix few = Matrix(2, 40).random(1);
  std::vector<std::int32_t> targets(2);
  CHECK_THROWS_AS(compare(f.ops, base, narrow, {}), Error);
  CHECK_THROWS_AS(compare(f.ops, base, few, {}), Error);
  CHECK_THROWS_AS(compare(f.ops, base, base, {targets.data(), DType::i32, {2}}), Error);
}
