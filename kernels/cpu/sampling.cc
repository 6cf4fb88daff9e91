// The next token from a row of logits.
#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace attn::cpu {

std::int32_t pick_largest(const float* logits, std::int64_t vocab) {
  std::int64_t best = 0;
  float top = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < vocab; ++i) {
    if (logits[i] > top) {
      top = logits[i];
      best = i;
    }
  }
  return static_cast<std::int32_t>(best);
}

std::int32_t pick_drawn(const float* logits, std::int64_t vocab, const Draw& draw,
                        std::vector<std::int32_t>& scratch) {
  const std::int32_t first = pick_largest(logits, vocab);
  const double top = static_cast<double>(logits[first]);
  if (!std::isfinite(top)) return first;
  // A share of the largest: 1 for the largest itself, 0 for NaN and -infinity.
  const auto share = [&](std::int32_t id) {
    const double value = static_cast<double>(logits[id]);
    return value <= top ? std::exp((value - top) / static_cast<double>(draw.temperature)) : 0.0;
  };

  scratch.resize(static_cast<std::size_t>(vocab));
  std::iota(scratch.begin(), scratch.end(), 0);
  auto end =
      std::remove_if(scratch.begin(), scratch.end(), [&](std::int32_t id) { return std::isnan(logits[id]); });
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  if (draw.top_k > 0 && draw.top_k < end - scratch.begin()) {
    std::partial_sort(scratch.begin(), scratch.begin() + draw.top_k, end, before);
    end = scratch.begin() + draw.top_k;
  } else if (draw.top_p < 1) {
    std::sort(scratch.begin(), end, before);
  }
  double total = 0;
  for (auto id = scratch.begin(); id != end; ++id) total += share(*id);
  if (draw.top_p < 1) {
    const double enough = static_cast<double>(draw.top_p) * total;
    double run = 0;
    auto id = scratch.begin();
    do {
      run += share(*id++);
    } while (id != end && run < enough);
    end = id;
    total = run;
  }
  const double mark = static_cast<double>(draw.uniform) * total;
  double run = 0;
  std::int32_t last = first;  // the last with a share, should rounding leave the mark beyond the sum
  for (auto id = scratch.begin(); id != end; ++id) {
    const double part = share(*id);
    if (part == 0) continue;
    run += part;
    last = *id;
    if (mark < run) break;
  }
  return last;
}

}  // namespace attn::cpu
