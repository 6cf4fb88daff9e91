// Softmax of one row of scores in place.
#include "kernels/cpu/masked_softmax.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace attn::cpu {

float masked_softmax_row(float* scores, int visible, int length) {
  std::memset(scores + visible, 0, static_cast<std::size_t>(length - visible) * sizeof(float));
  if (visible == 0) return -kInfinity;
  const int whole = visible - visible % kLanes;

  Vec best = broadcast(-kInfinity);
  for (int j = 0; j < whole; j += kLanes) best = maximum(load(scores + j), best);
  float top = largest(best);
  for (int j = whole; j < visible; ++j) top = scores[j] > top ? scores[j] : top;

  Vec total{};
  for (int j = 0; j < whole; j += kLanes) {
    const Vec e = exp_nonpositive(load(scores + j) - top);
    store(scores + j, e);
    total += e;
  }
  float denominator = sum(total);
  if (whole < visible) {
    float tail[kLanes];
    store(tail, broadcast(-kInfinity));
    for (int j = whole; j < visible; ++j) tail[j - whole] = scores[j];
    const Vec e = exp_nonpositive(load(tail) - top);
    store(tail, e);
    denominator += sum(e);
    for (int j = whole; j < visible; ++j) scores[j] = tail[j - whole];
  }

  const float factor = 1.0F / denominator;
  for (int j = 0; j < whole; j += kLanes) store(scores + j, load(scores + j) * factor);
  for (int j = whole; j < visible; ++j) scores[j] *= factor;
  return top + std::log(denominator);
}

}  // namespace attn::cpu
