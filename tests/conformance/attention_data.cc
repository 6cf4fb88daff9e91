// Inputs of a conformance case, and the result by the definition in double.
#include "tests/conformance/attention_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/tensor.h"

namespace attn::conformance {

namespace {

constexpr std::int64_t kGuard = 64;      // elements of poison before and after
constexpr std::int64_t kSpareKeys = 19;  // of a cache beyond kv_len

float rounded(float value, DType dtype) {
  switch (dtype) {
    case DType::f16: return f16_to_f32(f32_to_f16(value));
    case DType::bf16: return bf16_to_f32(f32_to_bf16(value));
    default: return value;
  }
}

Placement dense_placement(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  return {{batch, tokens, heads, dim},
          tokens * heads * dim,
          heads * dim,
          dim,
          kGuard,
          batch * tokens * heads * dim + 2 * kGuard};
}

Placement cache_placement(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  const std::int64_t capacity = tokens + kSpareKeys;
  return {{batch, tokens, heads, dim},
          heads * capacity * dim,
          dim,
          capacity * dim,
          kGuard,
          batch * heads * capacity * dim + 2 * kGuard};
}

enum class Which { q, k, v };

// Out of a table of standard normals, since a grid of shapes needs billions of numbers.
float normal_at(Which which, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
  static const std::vector<float> table = [] {
    std::vector<float> values(std::size_t{1} << 16);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(7, 0, i);
    return values;
  }();
  // Each coordinate in bits of its own: 512 dimensions, 2^24 tokens, 2^10 heads, 2^18 sequences.
  const auto place = static_cast<std::uint64_t>(d + (t << 9) + (h << 33) + (b << 43)) * 3 +
                     static_cast<std::uint64_t>(which);
  return table[mix_bits(place) >> 48];
}

// The number at one place. Where a score is to have a given value, only dimension 0 of q and k is not zero.
float number(const Case& test, Which which, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
  const AttentionProblem& p = test.problem;
  const float normal = normal_at(which, b, t, h, d);
  const auto key = static_cast<float>(t);
  const auto keys = static_cast<float>(p.kv_len);
  const float first = d == 0 ? 1.0F : 0.0F;
  switch (test.fill) {
    case Fill::normal: return normal;
    case Fill::large_scores: return which == Which::q ? 30 * normal : normal;
    case Fill::constant: return which == Which::q ? 0 : normal;
    case Fill::rising:
    case Fill::falling: {  // scores up to 40, in steps over the keys
      if (which == Which::v) return normal;
      if (which == Which::q) return first;
      return first * 40.0F / p.scale * (test.fill == Fill::rising ? key : keys - key) / keys;
    }
    case Fill::outlier_first:
    case Fill::outlier_last: {
      const bool outlier = t == (test.fill == Fill::outlier_first ? 0 : p.kv_len - 1);
      if (which == Which::v) return normal;
      if (which == Which::q) return d == 0 ? 8.0F : 0.1F * normal;
      return d == 0 && outlier ? 2.0F / p.scale : 0.1F * normal;
    }
    case Fill::one_hot: {  // the visible key with the largest t % 7 ... wins by at least 128: e^-128 is 0 in
                           // f32
      if (which == Which::v) return static_cast<float>((t * 13 + d * 7 + h) % 31 - 15);
      if (which == Which::q) return first;
      return first * 128.0F / p.scale * static_cast<float>(t * 37 % 8191);
    }
    case Fill::negative: {
      if (which == Which::v) return normal;
      if (which == Which::q) return first;
      return first * (-60000.0F + 8.0F * static_cast<float>(t % 5)) / p.scale;
    }
    case Fill::very_negative:
      if (which == Which::v) return normal;
      return which == Which::q ? first : first * -1e30F / p.scale;
    case Fill::head_number: return which == Which::v ? static_cast<float>(h + 1) : normal;
  }
  return 0;
}

void fill(const Case& test, Which which, const Placement& place, DType dtype, std::vector<float>& data) {
  const std::int64_t tokens = place.shape[1];
#pragma omp parallel for schedule(static) if (place.shape.elements() > 100000)
  for (std::int64_t row = 0; row < place.shape[0] * tokens; ++row) {
    const std::int64_t b = row / tokens;
    const std::int64_t t = row % tokens;
    for (std::int64_t h = 0; h < place.shape[2]; ++h) {
      for (std::int64_t d = 0; d < place.shape[3]; ++d) {
        data[static_cast<std::size_t>(place.at(b, t, h, d))] =
            rounded(number(test, which, b, t, h, d), dtype);
      }
    }
  }
}

std::vector<float> poison(std::int64_t elements) {
  return std::vector<float>(static_cast<std::size_t>(elements), std::numeric_limits<float>::quiet_NaN());
}

// What correct arithmetic may be off by, from a random-walk model of rounding (n roundings add up to
// sqrt(n)):
// - a score is a sum of head_dim products in f32: off by u32 (4 + sqrt(head_dim)) times the sum of their
// magnitudes, and where it is kept in 16 bits by half an ulp of itself;
// - an error e in the scores changes weights by a factor exp(+-e) above and below the fraction: 2 e of the
// largest |v|;
// - the sums over keys, and exp within a few units: u32 (8 + sqrt(visible)) of the largest |v|;
// - weights and output are each rounded once to the element type.
struct Tolerance {
  double out, lse;
};

Tolerance rounding_tolerance(double magnitude, double kept_score, double largest_v, int head_dim, int visible,
                             double lse, DType dtype) {
  constexpr double kUnit = 0x1p-24;
  const double score = kUnit * (4 + std::sqrt(head_dim)) * magnitude + kept_score;
  const double sums = kUnit * (8 + std::sqrt(visible));
  const double element = dtype == DType::f32 ? 0 : 2 * unit_roundoff(dtype);
  return {(std::expm1(2 * score) + sums + element) * largest_v, score + sums + kUnit * std::fabs(lse)};
}

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

TensorView Placement::view(void* memory, DType dtype) const {
  TensorView out(static_cast<char*>(memory) + first * static_cast<std::int64_t>(size_of(dtype)), dtype,
                 shape);
  out.strides = {batch_step, token_step, head_step, 1};
  return out;
}

Placement out_placement(const AttentionProblem& p) {
  return dense_placement(p.batch, p.q_len, p.q_heads, p.head_dim);
}

Inputs make_inputs(const Case& test, DType dtype) {
  const AttentionProblem& p = test.problem;
  Inputs in;
  in.q = dense_placement(p.batch, p.q_len, p.q_heads, p.head_dim);
  if (test.layout == Layout::fused) {
    in.shared = true;
    const Placement whole = dense_placement(p.batch, p.q_len, p.q_heads + 2 * p.kv_heads, p.head_dim);
    const auto part = [&](std::int64_t head, std::int64_t heads) {
      Placement out = whole;
      out.shape[2] = heads;
      out.first += head * p.head_dim;
      return out;
    };
    in.q = part(0, p.q_heads);
    in.k = part(p.q_heads, p.kv_heads);
    in.v = part(p.q_heads + p.kv_heads, p.kv_heads);
    in.q_data = poison(whole.elements);
    fill(test, Which::q, in.q, dtype, in.q_data);
    fill(test, Which::k, in.k, dtype, in.q_data);
    fill(test, Which::v, in.v, dtype, in.q_data);
    return in;
  }
  const auto place = test.layout == Layout::cache ? cache_placement : dense_placement;
  in.k = place(p.batch, p.kv_len, p.kv_heads, p.head_dim);
  in.v = in.k;
  in.q_data = poison(in.q.elements);
  in.k_data = poison(in.k.elements);
  in.v_data = poison(in.v.elements);
  fill(test, Which::q, in.q, dtype, in.q_data);
  fill(test, Which::k, in.k, dtype, in.k_data);
  fill(test, Which::v, in.v, dtype, in.v_data);
  return in;
}

Expected expected_of(const Case& test, const Inputs& in, DType dtype, DType kept) {
  const AttentionProblem& p = test.problem;
  const std::vector<float>& k_data = in.shared ? in.q_data : in.k_data;
  const std::vector<float>& v_data = in.shared ? in.q_data : in.v_data;
  const auto rows = static_cast<std::size_t>(p.batch) * p.q_len * p.q_heads;
  Expected e;
  e.out.assign(rows * p.head_dim, 0.0);
  e.lse.assign(rows, -std::numeric_limits<double>::infinity());
  e.out_tolerance.assign(rows, 0.0);
  e.lse_tolerance.assign(rows, 0.0);
#pragma omp parallel for schedule(dynamic) if (visible_pairs(p) > 1000)
  for (int query = 0; query < p.batch * p.q_len; ++query) {
    const int b = query / p.q_len;
    const int i = query % p.q_len;
    std::vector<double> scores(static_cast<std::size_t>(p.kv_len));
    const int visible = p.causal ? std::max(0, std::min(p.kv_len, i + 1 + p.kv_len - p.q_len)) : p.kv_len;
    if (visible == 0) continue;
    for (int h = 0; h < p.q_heads; ++h) {
      const int kv_head = h / (p.q_heads / p.kv_heads);
      double top = -std::numeric_limits<double>::infinity();
      double magnitude = 0;
      double largest_score = 0;
      double largest_v = 0;
      for (int j = 0; j < visible; ++j) {
        double dot = 0;
        double size = 0;
        for (int d = 0; d < p.head_dim; ++d) {
          const double product = static_cast<double>(in.q_data[in.q.at(b, i, h, d)]) *
                                 static_cast<double>(k_data[in.k.at(b, j, kv_head, d)]);
          dot += product;
          size += std::fabs(product);
          largest_v = std::max(largest_v, std::fabs(static_cast<double>(v_data[in.v.at(b, j, kv_head, d)])));
        }
        scores[j] = dot * static_cast<double>(p.scale);
        top = std::max(top, scores[j]);
        largest_score = std::max(largest_score, std::fabs(scores[j]));
        magnitude = std::max(magnitude, size * static_cast<double>(p.scale));
      }
      double denominator = 0;
      const auto row = (static_cast<std::size_t>(b) * p.q_len + i) * p.q_heads + h;
      double* out = e.out.data() + row * p.head_dim;
      for (int j = 0; j < visible; ++j) {
        const double weight = std::exp(scores[j] - top);
        denominator += weight;
        for (int d = 0; d < p.head_dim; ++d)
          out[d] += weight * static_cast<double>(v_data[in.v.at(b, j, kv_head, d)]);
      }
      for (int d = 0; d < p.head_dim; ++d) out[d] /= denominator;
      const double lse = top + std::log(denominator);
      e.lse[(static_cast<std::size_t>(b) * p.q_heads + h) * p.q_len + i] = lse;
      const double kept_score = kept == DType::f32 ? 0 : unit_roundoff(kept) * largest_score;
      const Tolerance tolerance =
          rounding_tolerance(magnitude, kept_score, largest_v, p.head_dim, visible, lse, dtype);
      // Where exactly one weight is left, or all scores are equal by construction, rounding of scores
      // cancels.
      const bool exact_scores = test.fill == Fill::one_hot || test.fill == Fill::negative ||
                                test.fill == Fill::very_negative || test.fill == Fill::constant;
      const Tolerance strict = rounding_tolerance(0, 0, largest_v, p.head_dim, visible, lse, dtype);
      e.out_tolerance[row] = test.fill == Fill::one_hot ? 0.0 : exact_scores ? strict.out : tolerance.out;
      e.lse_tolerance[row] = exact_scores ? strict.lse : tolerance.lse;
    }
  }
  return e;
}

}  // namespace attn::conformance
