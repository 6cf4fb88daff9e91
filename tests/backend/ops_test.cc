// The other operations of the CPU against plain loops in double: odd sizes, strided rows, poison around and
// between.
#include "lib/backend/ops.h"

#include <array>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "tests/backend/matrix.h"
#include "tests/catch.h"

using namespace attn;
using namespace attn::ops_test;

TEST_CASE("embedding adds the token row and the position row") {
  Fixture f;
  for (const auto& [batch, q_len, hidden] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 5}, {2, 3, 64}, {3, 40, 700}}) {
    Matrix tokens = Matrix(11, hidden, 3).random(1);
    Matrix positions = Matrix(50, hidden).random(2);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(batch * q_len));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 11);
    const std::int32_t past = 9;
    for (const bool with_positions : {true, false}) {
      Matrix x(batch * q_len, hidden);
      f.ops.embed({tokens.view(), with_positions ? positions.view() : TensorView{}},
                  {ids.data(), DType::i32, {batch, q_len}}, &past,
                  {x.data.data() + Matrix::kEdge, DType::f32, {batch, q_len, hidden}});
      CHECK(x.written_exactly());
      Worst worst;
      for (std::int64_t n = 0; n < batch * q_len; ++n) {
        for (std::int64_t c = 0; c < hidden; ++c) {
          const float token = tokens.at(ids[static_cast<std::size_t>(n)], c);
          worst.take(x.get(n, c),
                     static_cast<double>(with_positions ? token + positions.at(past + n % q_len, c) : token));
        }
      }
      CHECK(worst.value == 0);
    }
  }
}

namespace {

struct RopeCase {
  std::int64_t batch, q_len, q_heads, kv_heads, head_dim;
  int rotary_dims;
  std::int32_t past;
};

void check_rope(const RopeCase& c) {
  Fixture f;
  constexpr std::int64_t kCapacity = 30;
  const std::int64_t heads = c.q_heads + 2 * c.kv_heads;
  Matrix qkv = Matrix(c.batch * c.q_len, heads * c.head_dim, 6).random(1);
  const Matrix before = qkv;
  const std::int64_t half = c.rotary_dims / 2;
  Matrix cos = Matrix(kCapacity, std::max<std::int64_t>(half, 1)).random(2);
  Matrix sin = Matrix(kCapacity, std::max<std::int64_t>(half, 1)).random(3);
  Matrix k_cache(c.batch * c.kv_heads, kCapacity * c.head_dim);
  Matrix v_cache = k_cache;
  const auto cache_view = [&](Matrix& cache) {  // head-major memory seen as [batch, token, head, dim]
    TensorView view(cache.data.data() + Matrix::kEdge, DType::f32,
                    {c.batch, kCapacity, c.kv_heads, c.head_dim});
    view.strides = {c.kv_heads * kCapacity * c.head_dim, c.head_dim, kCapacity * c.head_dim, 1};
    return view;
  };
  TensorView view(qkv.data.data() + Matrix::kEdge, DType::f32, {c.batch, c.q_len, heads, c.head_dim});
  view.strides = {c.q_len * qkv.step, qkv.step, c.head_dim, 1};
  RotaryTable table;
  table.rotary_dims = c.rotary_dims;
  if (c.rotary_dims > 0) {
    table.cos = cos.view();
    table.sin = sin.view();
  }
  f.ops.rope_and_append(view, table, &c.past, cache_view(k_cache), cache_view(v_cache));

  const auto turned = [&](std::int64_t row, std::int64_t head, std::int64_t d, std::int64_t position) {
    const auto value = [&](std::int64_t dim) { return before.get(row, head * c.head_dim + dim); };
    if (d >= c.rotary_dims) return value(d);
    if (d < half) return value(d) * cos.get(position, d) - value(d + half) * sin.get(position, d);
    return value(d) * cos.get(position, d - half) + value(d - half) * sin.get(position, d - half);
  };
  Worst worst;
  std::int64_t appended = 0;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t t = 0; t < c.q_len; ++t) {
      const std::int64_t row = b * c.q_len + t;
      const std::int64_t position = c.past + t;
      for (std::int64_t d = 0; d < c.head_dim; ++d) {
        for (std::int64_t h = 0; h < c.q_heads; ++h)
          worst.take(qkv.get(row, h * c.head_dim + d), turned(row, h, d, position));
        for (std::int64_t h = 0; h < c.kv_heads; ++h) {
          worst.take(k_cache.get(b * c.kv_heads + h, position * c.head_dim + d),
                     turned(row, c.q_heads + h, d, position));
          worst.take(v_cache.get(b * c.kv_heads + h, position * c.head_dim + d),
                     before.get(row, (c.q_heads + c.kv_heads + h) * c.head_dim + d));
          ++appended;
        }
      }
    }
  }
  CHECK(worst.value < 1e-6);
  // Exactly the new places of the caches were written, and nothing beside the rows of qkv.
  const auto written = [](const Matrix& m) {
    return std::count_if(m.data.begin(), m.data.end(), [](float x) { return !std::isnan(x); });
  };
  CHECK(written(k_cache) == appended);
  CHECK(written(v_cache) == appended);
  CHECK(qkv.written_exactly());
}

}  // namespace

TEST_CASE("rotary positions turn queries in place and keys into the cache") {
  check_rope({1, 1, 2, 2, 8, 8, 0});
  check_rope({2, 3, 4, 2, 20, 8, 5});
  check_rope({1, 17, 3, 1, 80, 20, 13});
  check_rope({3, 1, 6, 2, 33, 2, 29});
  check_rope({2, 4, 2, 2, 16, 0, 7});  // GPT-2: nothing turns, the cache is still written
}

TEST_CASE("appending past the end of the cache is an internal error and not a write") {
  Fixture f;
  std::vector<float> qkv(3 * 8);
  std::vector<float> cache(4 * 8);
  const TensorView keys(cache.data(), DType::f32, {1, 4, 1, 8});
  const std::int32_t past = 4;
  CHECK_THROWS_AS(f.ops.rope_and_append({qkv.data(), DType::f32, {1, 1, 3, 8}}, {}, &past, keys, keys),
                  Error);
}

TEST_CASE("logits are the final norm times the head") {
  Fixture f;
  for (const std::int64_t rows : {1, 3, 12}) {
    Matrix x = Matrix(rows, 61, 61).random(1);  // every second row of a larger tensor
    Matrix gain = Matrix(1, 61).random(2);
    Matrix head = Matrix(203, 61).random(3);
    Matrix normed(rows, 61);
    Matrix out(rows, 203, 3);
    const NormWeights norm{NormKind::rms_norm, 1e-5F, gain.row(), {}};
    f.ops.logits(x.view(), norm, {head.view(), {}}, normed.view(), out.view());
    CHECK(out.written_exactly());
    Worst worst;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto n = normed_row(x, r, norm);
      for (std::int64_t o = 0; o < 203; ++o) worst.take(out.get(r, o), dot_with(n, head, o, nullptr), 10);
    }
    CHECK(worst.value < 2e-6);
  }
}

TEST_CASE("token losses are log softmax in double at any offset") {
  Fixture f;
  for (const std::int64_t vocab : {1, 5, 16, 100, 50257}) {
    for (const float offset : {0.0F, 1e4F, -300.0F}) {
      Matrix logits = Matrix(4, vocab, 3).random(static_cast<std::uint64_t>(vocab), 3);
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t c = 0; c < vocab; ++c) logits.at(r, c) += offset;
      }
      std::vector<std::int32_t> targets = {0, static_cast<std::int32_t>(vocab - 1), -1,
                                           static_cast<std::int32_t>(vocab / 2)};
      std::vector<double> losses(4, std::numeric_limits<double>::quiet_NaN());
      f.ops.token_losses(logits.view(), {targets.data(), DType::i32, {4}}, losses.data());
      Worst worst;
      for (std::int64_t r = 0; r < 4; ++r) {
        if (targets[r] < 0) {
          CHECK(losses[r] == 0);
          continue;
        }
        double top = -1e300;
        for (std::int64_t c = 0; c < vocab; ++c) top = std::max(top, logits.get(r, c));
        double total = 0;
        for (std::int64_t c = 0; c < vocab; ++c) total += std::exp(logits.get(r, c) - top);
        worst.take(losses[r], std::log(total) - (logits.get(r, targets[r]) - top));
      }
      CHECK(worst.value < 2e-7);
    }
  }
}

TEST_CASE("a target that is nearly certain keeps its small loss") {
  Fixture f;
  std::vector<float> logits = {30.0F, 0.0F, 0.0F};
  const std::int32_t target = 0;
  double loss = 0;
  f.ops.token_losses({logits.data(), DType::f32, {1, 3}},
                     {const_cast<std::int32_t*>(&target), DType::i32, {1}}, &loss);
  CHECK(loss == Approx(2 * std::exp(-30.0)).epsilon(1e-2));
}

TEST_CASE("advancing moves the position that lies on the device") {
  Fixture f;
  std::int32_t past = 5;
  f.ops.advance(&past, 3);
  CHECK(past == 8);
}

TEST_CASE("tensors of another type are refused in words") {
  Fixture f;
  std::vector<float> memory(64);
  const TensorView half(memory.data(), DType::f16, {2, 4});
  const TensorView next(memory.data(), DType::i32, {2});
  const std::int32_t past = 0;
  try {
    f.ops.pick_token(half, {}, &past, next);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(std::string(error.what()).find("--dtype f32") != std::string::npos);
  }
}

TEST_CASE("a logit that is not finite makes the loss of its row not finite wherever it stands") {
  Fixture f;
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::size_t vocab : {5, 100}) {
    for (const std::size_t place : {std::size_t{0}, vocab / 2, vocab - 1}) {
      for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> logits(vocab, 0.5F);
        logits[place] = bad;
        std::int32_t target = place == 0 ? 1 : 0;
        double loss = 0;
        f.ops.token_losses({logits.data(), DType::f32, {1, static_cast<std::int64_t>(vocab)}},
                           {&target, DType::i32, {1}}, &loss);
        CAPTURE(vocab, place, bad);
        CHECK(!std::isfinite(loss));
      }
    }
  }
}
