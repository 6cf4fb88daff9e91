// Each operation of the CPU against plain loops in double: odd sizes, strided rows, poison around and
// between.
#include "lib/backend/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "tests/catch.h"

using namespace attn;

namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// [rows, size] whose rows lie `gap` elements apart, poison between them and around.
struct Matrix {
  std::int64_t rows, size, step;
  std::vector<float> data;

  Matrix(std::int64_t row_count, std::int64_t row_size, std::int64_t gap = 0)
      : rows(row_count), size(row_size), step(row_size + gap), data(kEdge * 2 + row_count * step, kPoison) {}

  static constexpr std::int64_t kEdge = 8;

  float& at(std::int64_t r, std::int64_t c) { return data[kEdge + r * step + c]; }
  double get(std::int64_t r, std::int64_t c) const { return static_cast<double>(data[kEdge + r * step + c]); }
  Matrix& random(std::uint64_t seed, float scale = 1) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < size; ++c)
        at(r, c) = scale * random_normal(seed, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(c));
    }
    return *this;
  }
  TensorView view() {
    TensorView out(data.data() + kEdge, DType::f32, {rows, size});
    out.strides[0] = step;
    return out;
  }
  TensorView row() { return {data.data() + kEdge, DType::f32, {size}}; }
  // Poison is where no element is, and nowhere else.
  bool written_exactly() const {
    std::vector<bool> inside(data.size(), false);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < size; ++c) inside[kEdge + r * step + c] = true;
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (std::isnan(data[i]) == inside[i]) return false;
    }
    return true;
  }
};

struct Fixture {
  Platform platform = open_platform("cpu");
  Ops& ops = *platform.ops;
};

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu: return x > 0 ? x : 0;
    case Activation::silu: return x / (1 + std::exp(-x));
  }
  return 0;
}

std::vector<double> normed_row(const Matrix& x, std::int64_t r, const NormWeights& norm) {
  const bool centred = norm.kind == NormKind::layer_norm;
  double mean = 0;
  for (std::int64_t c = 0; c < x.size && centred; ++c) mean += x.get(r, c) / static_cast<double>(x.size);
  double square = 0;
  for (std::int64_t c = 0; c < x.size; ++c)
    square += std::pow(x.get(r, c) - mean, 2) / static_cast<double>(x.size);
  std::vector<double> out(static_cast<std::size_t>(x.size));
  for (std::int64_t c = 0; c < x.size; ++c) {
    const double bias = norm.bias.empty() ? 0 : static_cast<double>(norm.bias.as<float>()[c]);
    out[c] = (x.get(r, c) - mean) / std::sqrt(square + static_cast<double>(norm.eps)) *
                 static_cast<double>(norm.weight.as<float>()[c]) +
             bias;
  }
  return out;
}

double dot_with(const std::vector<double>& x, Matrix& weight, std::int64_t r, Matrix* bias) {
  double total = bias != nullptr ? bias->get(0, r) : 0;
  for (std::size_t c = 0; c < x.size(); ++c) total += x[c] * weight.get(r, static_cast<std::int64_t>(c));
  return total;
}

// Largest |difference| over `scale`; NaN counts as infinite.
struct Worst {
  double value = 0;
  void take(double got, double truth, double scale = 1) {
    const double error = std::fabs(got - truth) / scale;
    if (!(error <= value)) value = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
};

struct ProjectCase {
  std::int64_t rows, hidden, out;
  NormKind kind;
  Activation activation;
  bool gated, biased, strided;
};

double project_error(const ProjectCase& c) {
  Fixture f;
  const std::int64_t weight_rows = c.gated ? 2 * c.out : c.out;
  Matrix x = Matrix(c.rows, c.hidden).random(1);
  Matrix gain = Matrix(1, c.hidden).random(2);
  Matrix shift = Matrix(1, c.hidden).random(3);
  Matrix weight =
      Matrix(weight_rows, c.hidden, c.strided ? 5 : 0).random(4, 1 / std::sqrt(static_cast<float>(c.hidden)));
  Matrix bias = Matrix(1, weight_rows).random(5);
  Matrix out(c.rows, c.out, c.strided ? 7 : 0);
  Matrix normed(c.rows + 2, c.hidden);
  Matrix wide(c.rows, 2 * c.out);
  NormWeights norm{c.kind, 1e-5F, gain.row(), c.kind == NormKind::layer_norm ? shift.row() : TensorView{}};
  LinearWeights linear{weight.view(), c.biased ? bias.row() : TensorView{}};
  const ProjectTerm term{&norm, &linear, c.activation, c.gated, out.view()};
  f.ops.project(x.view(), {&term, 1}, {normed.view(), c.gated ? wide.view() : TensorView{}});
  CHECK(out.written_exactly());
  Worst worst;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const std::vector<double> n = normed_row(x, r, norm);
    for (std::int64_t o = 0; o < c.out; ++o) {
      double truth = activated(c.activation, dot_with(n, weight, o, c.biased ? &bias : nullptr));
      if (c.gated) truth *= dot_with(n, weight, c.out + o, c.biased ? &bias : nullptr);
      worst.take(out.get(r, o), truth, 1 + std::fabs(truth));
    }
  }
  return worst.value;
}

}  // namespace

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

TEST_CASE("a projection is norm then product then activation for any number of rows") {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 33}) {
    CAPTURE(rows);
    CHECK(project_error({rows, 64, 48, NormKind::layer_norm, Activation::none, false, true, false}) < 4e-6);
    CHECK(project_error({rows, 77, 131, NormKind::layer_norm, Activation::gelu_erf, false, true, true}) <
          4e-6);
    CHECK(project_error({rows, 100, 67, NormKind::rms_norm, Activation::silu, true, false, true}) < 8e-6);
    CHECK(project_error({rows, 37, 5, NormKind::rms_norm, Activation::gelu_tanh, true, true, false}) < 8e-6);
    CHECK(project_error({rows, 3, 1, NormKind::layer_norm, Activation::relu, false, false, false}) < 4e-6);
  }
  CHECK(project_error({1, 300, 1000, NormKind::layer_norm, Activation::gelu_erf, false, true, false}) < 4e-6);
}

TEST_CASE("two projections of a parallel residual each have their own norm") {
  Fixture f;
  for (const std::int64_t rows : {1, 20}) {
    Matrix x = Matrix(rows, 40).random(1);
    Matrix gain_a = Matrix(1, 40).random(2);
    Matrix gain_b = Matrix(1, 40).random(3);
    Matrix weight = Matrix(30, 40).random(4);  // both weights are neighbours in one matrix
    const NormWeights norm_a{NormKind::rms_norm, 1e-6F, gain_a.row(), {}};
    const NormWeights norm_b{NormKind::rms_norm, 1e-6F, gain_b.row(), {}};
    const LinearWeights first{weight.view().slice(0, 0, 10), {}};
    const LinearWeights second{weight.view().slice(0, 10, 20), {}};
    Matrix a(rows, 10);
    Matrix b(rows, 20);
    Matrix normed(rows, 40);
    for (const bool same : {false, true}) {
      const NormWeights& norm_of_b = same ? norm_a : norm_b;
      const ProjectTerm terms[] = {{&norm_a, &first, Activation::none, false, a.view()},
                                   {&norm_of_b, &second, Activation::relu, false, b.view()}};
      f.ops.project(x.view(), terms, {normed.view(), {}});
      Worst worst;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t o = 0; o < 10; ++o)
          worst.take(a.get(r, o), dot_with(normed_row(x, r, norm_a), weight, o, nullptr), 10);
        for (std::int64_t o = 0; o < 20; ++o) {
          worst.take(
              b.get(r, o),
              activated(Activation::relu, dot_with(normed_row(x, r, norm_of_b), weight, 10 + o, nullptr)),
              10);
        }
      }
      CHECK(worst.value < 2e-6);
    }
  }
}

TEST_CASE("layer norm is exact about rows far from zero") {
  Fixture f;
  Matrix x = Matrix(2, 768).random(1);
  for (std::int64_t c = 0; c < 768; ++c) x.at(1, c) += 1000;
  std::vector<float> ones(768, 1.0F);
  Matrix identity(768, 768);
  for (std::int64_t r = 0; r < 768; ++r) {
    for (std::int64_t c = 0; c < 768; ++c) identity.at(r, c) = r == c ? 1.0F : 0.0F;
  }
  const NormWeights norm{NormKind::layer_norm, 1e-5F, {ones.data(), DType::f32, {768}}, {}};
  const LinearWeights linear{identity.view(), {}};
  Matrix normed(2, 768);
  Matrix out(2, 768);
  f.ops.logits(x.view(), norm, linear, normed.view(), out.view());
  Worst worst;
  for (std::int64_t r = 0; r < 2; ++r) {
    const auto truth = normed_row(x, r, norm);
    for (std::int64_t c = 0; c < 768; ++c) worst.take(out.get(r, c), truth[c]);
  }
  CHECK(worst.value <
        5e-5);  // x - mean is rounded at 1000: an ulp of 6e-5 there, the mean itself exact to half of it
}

TEST_CASE("products are added to the residual for any number of rows and terms") {
  Fixture f;
  for (const std::int64_t rows : {1, 2, 5, 8, 9, 40}) {
    for (const bool biased : {true, false}) {
      Matrix x = Matrix(rows, 50).random(1);
      const Matrix before = x;
      Matrix in_a = Matrix(rows, 33, 4).random(2);
      Matrix in_b = Matrix(rows, 70).random(3);
      Matrix weight = Matrix(50, 103).random(4);  // columns of one matrix
      Matrix bias_a = Matrix(1, 50).random(5);
      Matrix bias_b = Matrix(1, 50).random(6);
      const LinearWeights a{weight.view().slice(1, 0, 33), biased ? bias_a.row() : TensorView{}};
      const LinearWeights b{weight.view().slice(1, 33, 70), biased ? bias_b.row() : TensorView{}};
      const AddTerm terms[] = {{in_a.view(), &a}, {in_b.view(), &b}};
      f.ops.project_add(x.view(), terms);
      CHECK(x.written_exactly());
      Worst worst;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t o = 0; o < 50; ++o) {
          double truth = before.get(r, o) + (biased ? bias_a.get(0, o) + bias_b.get(0, o) : 0.0);
          for (std::int64_t c = 0; c < 33; ++c) truth += in_a.get(r, c) * weight.get(o, c);
          for (std::int64_t c = 0; c < 70; ++c) truth += in_b.get(r, c) * weight.get(o, 33 + c);
          worst.take(x.get(r, o), truth, 10);
        }
      }
      CHECK(worst.value < 2e-6);
    }
  }
}

TEST_CASE("a decode row gives the same bits alone and among seven others") {
  Fixture f;
  Matrix in = Matrix(8, 133).random(1);
  Matrix weight = Matrix(90, 133).random(2);
  const LinearWeights linear{weight.view(), {}};
  Matrix all(8, 90);
  std::fill(all.data.begin(), all.data.end(), 0.0F);
  Matrix one = all;
  const AddTerm together{in.view(), &linear};
  f.ops.project_add(all.view(), {&together, 1});
  for (std::int64_t r = 0; r < 8; ++r) {
    const AddTerm alone{in.view().slice(0, r, 1), &linear};
    f.ops.project_add(one.view().slice(0, r, 1), {&alone, 1});
  }
  CHECK(one.data == all.data);
}

TEST_CASE("activations keep f32 precision over their whole range") {
  Fixture f;
  // A product with weight 1 and input 1 hands each x in through the bias.
  std::vector<float> xs;
  for (float x = -14; x <= 14; x += 0.0037F) xs.push_back(x);
  for (float x : {0.0F, -0.0F, 1e-20F, -1e-20F, 1e-5F, 50.0F, -50.0F, 1000.0F, -1000.0F}) xs.push_back(x);
  const auto count = static_cast<std::int64_t>(xs.size());
  Matrix weight(count, 1);
  std::fill(weight.data.begin(), weight.data.end(), 0.0F);
  Matrix x = Matrix(1, 1).random(1);
  Matrix normed(1, 1);
  Matrix out(1, count);
  std::vector<float> one = {1.0F};
  const NormWeights norm{NormKind::rms_norm, 1e-5F, {one.data(), DType::f32, {1}}, {}};
  const LinearWeights linear{weight.view(), {xs.data(), DType::f32, {count}}};
  const auto worst_of = [&](Activation activation, double least) {
    const ProjectTerm term{&norm, &linear, activation, false, out.view()};
    f.ops.project(x.view(), {&term, 1}, {normed.view(), {}});
    Worst worst;
    for (std::int64_t i = 0; i < count; ++i) {
      const double truth = activated(activation, static_cast<double>(xs[static_cast<std::size_t>(i)]));
      worst.take(out.get(0, i), truth, std::max(std::fabs(truth), least));
    }
    return worst.value;
  };
  // Relative to the value itself, down to where f32 runs out; the tail of gelu_erf included.
  CHECK(worst_of(Activation::gelu_erf, 1e-32) < 6e-7);
  CHECK(worst_of(Activation::relu, 1e-36) == 0);
  CHECK(worst_of(Activation::silu, 1e-30) < 2e-6);
  // The argument of tanh is itself rounded: relative to its size far out, to 1 near the middle.
  CHECK(worst_of(Activation::gelu_tanh, 1e-3) < 2e-6);
}

TEST_CASE("activations keep NaN") {
  Fixture f;
  std::vector<float> bias(20, kPoison);
  Matrix weight = Matrix(20, 4).random(1);
  Matrix x = Matrix(1, 4).random(2);
  Matrix normed(1, 4);
  Matrix out(1, 20);
  const NormWeights norm{NormKind::rms_norm, 1e-5F, weight.view().slice(0, 0, 1).reshaped({4}), {}};
  const LinearWeights linear{weight.view(), {bias.data(), DType::f32, {20}}};
  for (Activation activation :
       {Activation::gelu_erf, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    std::fill(out.data.begin(), out.data.end(), 0.0F);
    const ProjectTerm term{&norm, &linear, activation, false, out.view()};
    f.ops.project(x.view(), {&term, 1}, {normed.view(), {}});
    for (std::int64_t i = 0; i < 20; ++i) CHECK(std::isnan(out.get(0, i)));
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
