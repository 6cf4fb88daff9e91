// The next token from a row of logits: the largest, or drawn.
#pragma once

#include <cstdint>
#include <vector>

namespace attn::cpu {

// The lowest id among the largest. NaN is never largest; a row without any number above -infinity gives 0.
std::int32_t pick_largest(const float* logits, std::int64_t vocab);

struct Draw {
  float temperature;  // above 0
  int top_k;          // 0: no limit
  float top_p;        // 1: no limit
  float uniform;      // in [0, 1): the random number of this draw
};

// softmax(logits / temperature) over the top_k largest (ties: lower ids first), then over the shortest run of
// largest whose share reaches top_p. NaN counts as -infinity; where the largest is infinite it is picked.
// scratch keeps its memory between calls.
std::int32_t pick_drawn(const float* logits, std::int64_t vocab, const Draw& draw,
                        std::vector<std::int32_t>& scratch);

}  // namespace attn::cpu
