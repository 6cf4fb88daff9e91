// Conversion of elements between the floating-point types, on the host.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace attn {

// IEEE binary16 and bfloat16 to f32 (exact) and back (round to nearest, ties to even; NaN stays NaN).
float f16_to_f32(std::uint16_t half);
std::uint16_t f32_to_f16(float value);
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t f32_to_bf16(float value);

// `count` elements of floating-point type `from` at `source` become type `to` at `target`, in parallel for
// large counts. `source` may be unaligned; the ranges must not overlap. Throws Error{internal} for i32.
void convert_elements(const void* source, DType from, void* target, DType to, std::size_t count);

}  // namespace attn
