// Norms, products and activations of the CPU against plain loops in double: odd sizes, strided rows, poison.
#include "tests/backend/matrix.h"
#include "tests/catch.h"

using namespace attn;
using namespace attn::ops_test;

namespace {

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
