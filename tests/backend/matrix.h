// Poisoned matrices and double-precision pieces that the tests of operations share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/core/rng.h"

namespace attn::ops_test {

inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

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

inline double activated(Activation activation, double x) {
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

inline std::vector<double> normed_row(const Matrix& x, std::int64_t r, const NormWeights& norm) {
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

inline double dot_with(const std::vector<double>& x, Matrix& weight, std::int64_t r, Matrix* bias) {
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

}  // namespace attn::ops_test
