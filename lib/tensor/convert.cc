// f32, f16, bf16 to each other.
#include "lib/tensor/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"

namespace attn {

namespace {

// The work stands here, not in the public functions: position-independent code may not inline what others can
// see.

// Without branches that data decide. Exponents move by the difference of the biases; that of infinity and NaN
// moves as far again. A subnormal gets the exponent -14 and with it a leading one that it does not have,
// which the subtraction of 2^-14 takes away (exactly; no subnormal f32, slow on many processors, occurs).
inline float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffU) << 13;
  constexpr std::uint32_t kBiases = 112U << 23;
  const std::uint32_t normal = magnitude + kBiases + (magnitude >= 0x0f800000U ? kBiases : 0U);
  const float subnormal = std::bit_cast<float>(magnitude + kBiases + (1U << 23)) - 0x1p-14F;
  const std::uint32_t bits = magnitude < (1U << 23) ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | bits);
}

inline std::uint16_t narrow_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U)
    return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 rounds to infinity
  if (magnitude < 0x38800000U) {  // subnormal in f16: a multiple of 2^-24, rounded by the current mode
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyintf(scaled)));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

inline std::uint16_t narrow_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float load(const char* source, DType from, std::size_t i) {
  if (from == DType::f32) {
    float value;
    std::memcpy(&value, source + 4 * i, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, source + 2 * i, 2);
  return from == DType::f16 ? widen_f16(bits) : bf16_to_f32(bits);
}

template <DType from, DType to>
void convert_range(const char* source, char* target, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const float value = load(source, from, i);
    if constexpr (to == DType::f32) {
      std::memcpy(target + 4 * i, &value, 4);
    } else {
      const std::uint16_t bits = to == DType::f16 ? narrow_f16(value) : narrow_bf16(value);
      std::memcpy(target + 2 * i, &bits, 2);
    }
  }
}

// A short run never enters the parallel construct: opening it for one thread costs more than converting the
// run.
template <DType from, DType to>
void convert_as(const char* source, char* target, std::size_t count) {
  constexpr std::size_t kPiece = 65536;
  if (count <= kPiece) return convert_range<from, to>(source, target, 0, count);
  const std::size_t pieces = (count + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static)
  for (std::size_t piece = 0; piece < pieces; ++piece)
    convert_range<from, to>(source, target, piece * kPiece, std::min(count, (piece + 1) * kPiece));
}

template <DType from>
void convert_from(const char* source, char* target, DType to, std::size_t count) {
  if (to == DType::f32) return convert_as<from, DType::f32>(source, target, count);
  if (to == DType::f16) return convert_as<from, DType::f16>(source, target, count);
  convert_as<from, DType::bf16>(source, target, count);
}

}  // namespace

float f16_to_f32(std::uint16_t half) { return widen_f16(half); }
std::uint16_t f32_to_f16(float value) { return narrow_f16(value); }
std::uint16_t f32_to_bf16(float value) { return narrow_bf16(value); }

void convert_elements(const void* source, DType from, void* target, DType to, std::size_t count) {
  if (from == DType::i32 || to == DType::i32) fail(ErrorKind::internal, "i32 elements are not converted");
  if (count == 0) return;
  const char* in = static_cast<const char*>(source);
  char* out = static_cast<char*>(target);
  if (from == to) {
    std::memcpy(out, in, count * size_of(from));
  } else if (from == DType::f32) {
    convert_from<DType::f32>(in, out, to, count);
  } else if (from == DType::f16) {
    convert_from<DType::f16>(in, out, to, count);
  } else {
    convert_from<DType::bf16>(in, out, to, count);
  }
}

}  // namespace attn
