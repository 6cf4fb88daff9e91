// Activation functions over a row, in place.
#pragma once

#include <cstdint>

namespace attn::cpu {

using ActivationFunction = void (*)(float* row, std::int64_t size);

void gelu_erf(float* row, std::int64_t size);   // x Phi(x), Phi the normal distribution; within f32 rounding
void gelu_tanh(float* row, std::int64_t size);  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
void relu(float* row, std::int64_t size);
void silu(float* row, std::int64_t size);  // x / (1 + e^-x)

}  // namespace attn::cpu
