// Softmax of one row of scores in place: the middle of mode baseline.
#pragma once

namespace attn::cpu {

// scores[0 ... visible) become their softmax, scores[visible ... length) become 0; returns ln of the
// denominator with the maximum put back, -infinity when nothing is visible.
float masked_softmax_row(float* scores, int visible, int length);

}  // namespace attn::cpu
