// Products of activations with a weight matrix.
#include "kernels/cpu/linear.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>
#include <omp.h>

#include "kernels/cpu/simd.h"

namespace attn::cpu {

namespace {

inline constexpr int kWeightRows = 4;
inline constexpr int kChunkRows = 64;  // outputs that a thread computes between two epilogues

// sums[t][r] = in[t] . weight[r] for R weight rows and T activations. One accumulator a pair, and one
// rounding a step: the result of a pair does not depend on how many rows are computed together. The next R
// rows are fetched meanwhile: with several activations the arithmetic is long enough to hide the memory
// (measured: twice as fast at 4 activations). Past the matrix the fetch is void.
template <int R, int T>
void dot_block(const float* in, std::int64_t in_step, const float* weight, std::int64_t weight_step,
               std::int64_t in_size, float (*sums)[kWeightRows]) {
  const std::int64_t whole = in_size - in_size % kLanes;
  Vec parts[T][R] = {};
  for (std::int64_t k = 0; k < whole; k += kLanes) {
    Vec w[R];
    for (int r = 0; r < R; ++r) {
      w[r] = load(weight + r * weight_step + k);
      __builtin_prefetch(weight + (r + R) * weight_step + k);
    }
    for (int t = 0; t < T; ++t) {
      const Vec x = load(in + t * in_step + k);
      for (int r = 0; r < R; ++r) parts[t][r] += x * w[r];
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < R; ++r) {
      float total = sum(parts[t][r]);
      for (std::int64_t k = whole; k < in_size; ++k)
        total = std::fma(in[t * in_step + k], weight[r * weight_step + k], total);
      sums[t][r] = total;
    }
  }
}

template <int R>
void dot_rows(const Linear& p, const float* weight, float (*sums)[kWeightRows]) {
  std::int64_t t = 0;
  for (; t + 4 <= p.rows; t += 4)
    dot_block<R, 4>(p.in + t * p.in_step, p.in_step, weight, p.weight_step, p.in_size, sums + t);
  for (; t + 2 <= p.rows; t += 2)
    dot_block<R, 2>(p.in + t * p.in_step, p.in_step, weight, p.weight_step, p.in_size, sums + t);
  if (t < p.rows)
    dot_block<R, 1>(p.in + t * p.in_step, p.in_step, weight, p.weight_step, p.in_size, sums + t);
}

// Calls write(row, output, value) for outputs begin ... end - 1 of the weight's rows.
template <typename Write>
void few_rows(const Linear& p, std::int64_t begin, std::int64_t end, const Write& write) {
  float sums[kFewRows][kWeightRows];
  for (std::int64_t o = begin; o < end; o += kWeightRows) {
    const auto count = std::min<std::int64_t>(kWeightRows, end - o);
    const float* weight = p.weight + o * p.weight_step;
    if (count == kWeightRows) {
      dot_rows<kWeightRows>(p, weight, sums);
      for (std::int64_t t = 0; t < p.rows; ++t) {
        for (int r = 0; r < kWeightRows; ++r) write(t, o + r, sums[t][r]);
      }
    } else {
      for (std::int64_t r = 0; r < count; ++r) {
        dot_rows<1>(p, weight + r * p.weight_step, sums);
        for (std::int64_t t = 0; t < p.rows; ++t) write(t, o + r, sums[t][0]);
      }
    }
  }
}

// Calls body(begin, end) for chunks of outputs, over all threads.
template <typename Body>
void over_outputs(const Linear& p, const Body& body) {
  const std::int64_t chunks = (p.out_size + kChunkRows - 1) / kChunkRows;
#pragma omp parallel for schedule(static) if (p.out_size * p.in_size > 16384)
  for (std::int64_t c = 0; c < chunks; ++c) body(c * kChunkRows, std::min(p.out_size, (c + 1) * kChunkRows));
}

void product(const Linear& p, std::int64_t out_size, float beta, float* out, std::int64_t out_step) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(p.rows), static_cast<int>(out_size),
              static_cast<int>(p.in_size), 1.0F, p.in, static_cast<int>(p.in_step), p.weight,
              static_cast<int>(p.weight_step), beta, out, static_cast<int>(out_step));
}

}  // namespace

void linear(const Linear& p) {
  if (p.rows <= kFewRows) {
    over_outputs(p, [&](std::int64_t begin, std::int64_t end) {
      few_rows(p, begin, end, [&](std::int64_t t, std::int64_t o, float value) {
        p.out[t * p.out_step + o] = p.bias != nullptr ? value + p.bias[o] : value;
      });
      if (p.activation == nullptr) return;
      for (std::int64_t t = 0; t < p.rows; ++t) p.activation(p.out + t * p.out_step + begin, end - begin);
    });
    return;
  }
  product(p, p.out_size, 0.0F, p.out, p.out_step);
  if (p.bias == nullptr && p.activation == nullptr) return;
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < p.rows; ++t) {
    float* row = p.out + t * p.out_step;
    for (std::int64_t o = 0; p.bias != nullptr && o < p.out_size; ++o) row[o] += p.bias[o];
    if (p.activation != nullptr) p.activation(row, p.out_size);
  }
}

void linear_gated(const Linear& p, float* wide) {
  if (p.rows <= kFewRows) {
    over_outputs(p, [&](std::int64_t begin, std::int64_t end) {
      float up[kFewRows][kChunkRows];
      few_rows(p, begin, end, [&](std::int64_t t, std::int64_t o, float value) {
        p.out[t * p.out_step + o] = p.bias != nullptr ? value + p.bias[o] : value;
      });
      few_rows(p, p.out_size + begin, p.out_size + end, [&](std::int64_t t, std::int64_t o, float value) {
        up[t][o - p.out_size - begin] = p.bias != nullptr ? value + p.bias[o] : value;
      });
      for (std::int64_t t = 0; t < p.rows; ++t) {
        float* row = p.out + t * p.out_step + begin;
        if (p.activation != nullptr) p.activation(row, end - begin);
        for (std::int64_t o = 0; o < end - begin; ++o) row[o] *= up[t][o];
      }
    });
    return;
  }
  product(p, 2 * p.out_size, 0.0F, wide, 2 * p.out_size);
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < p.rows; ++t) {
    float* gate = wide + t * 2 * p.out_size;
    float* row = p.out + t * p.out_step;
    for (std::int64_t o = 0; p.bias != nullptr && o < 2 * p.out_size; ++o) gate[o] += p.bias[o];
    if (p.activation != nullptr) p.activation(gate, p.out_size);
    for (std::int64_t o = 0; o < p.out_size; ++o) row[o] = gate[o] * gate[p.out_size + o];
  }
}

void linear_add(const Linear& p) {
  if (p.rows <= kFewRows) {
    over_outputs(p, [&](std::int64_t begin, std::int64_t end) {
      few_rows(p, begin, end, [&](std::int64_t t, std::int64_t o, float value) {
        p.out[t * p.out_step + o] += p.bias != nullptr ? value + p.bias[o] : value;
      });
    });
    return;
  }
  if (p.bias != nullptr) {
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < p.rows; ++t) {
      float* row = p.out + t * p.out_step;
      for (std::int64_t o = 0; o < p.out_size; ++o) row[o] += p.bias[o];
    }
  }
  product(p, p.out_size, 1.0F, p.out, p.out_step);
}

}  // namespace attn::cpu
