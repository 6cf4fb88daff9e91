// LayerNorm and RMSNorm of rows.
#include "kernels/cpu/norm.h"

#include <cmath>

namespace attn::cpu {

namespace {

void scale_row(const Norm& n, const float* in, float* out, float mean, float factor) {
  if (n.bias != nullptr) {
    for (std::int64_t i = 0; i < n.size; ++i) out[i] = (in[i] - mean) * factor * n.weight[i] + n.bias[i];
  } else {
    for (std::int64_t i = 0; i < n.size; ++i) out[i] = (in[i] - mean) * factor * n.weight[i];
  }
}

template <bool kCentred>
void norm_rows(const Norm& n) {
#pragma omp parallel for schedule(static) if (n.rows * n.size > 16384)
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* in = n.in + row * n.in_step;
    double mean = 0;
    if (kCentred) {
      double total = 0;
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < n.size; ++i) total += static_cast<double>(in[i]);
      mean = total / static_cast<double>(n.size);
    }
    double squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n.size; ++i) {
      const double deviation = static_cast<double>(in[i]) - mean;
      squares += deviation * deviation;
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n.size) + static_cast<double>(n.eps));
    scale_row(n, in, n.out + row * n.out_step, static_cast<float>(mean), static_cast<float>(factor));
  }
}

}  // namespace

void layer_norm(const Norm& norm) { norm_rows<true>(norm); }
void rms_norm(const Norm& norm) { norm_rows<false>(norm); }

}  // namespace attn::cpu
