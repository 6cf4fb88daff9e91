// f32, f16, bf16 to each other.
#include "lib/tensor/convert.h"

#include <cmath>
#include <cstring>

#include "lib/core/error.h"

namespace attn {

float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 rounds to infinity
  if (magnitude < 0x38800000U) {  // subnormal in f16: a multiple of 2^-24, rounded by the current mode
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyintf(scaled)));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

namespace {

float load(const char* source, DType from, std::size_t i) {
  if (from == DType::f32) {
    float value;
    std::memcpy(&value, source + 4 * i, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, source + 2 * i, 2);
  return from == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

template <DType from, DType to>
void convert_as(const char* source, char* target, std::size_t count) {
#pragma omp parallel for schedule(static) if (count > 65536)
  for (std::size_t i = 0; i < count; ++i) {
    const float value = load(source, from, i);
    if constexpr (to == DType::f32) {
      std::memcpy(target + 4 * i, &value, 4);
    } else {
      const std::uint16_t bits = to == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(target + 2 * i, &bits, 2);
    }
  }
}

template <DType from>
void convert_from(const char* source, char* target, DType to, std::size_t count) {
  if (to == DType::f32) return convert_as<from, DType::f32>(source, target, count);
  if (to == DType::f16) return convert_as<from, DType::f16>(source, target, count);
  convert_as<from, DType::bf16>(source, target, count);
}

}  // namespace

void convert_elements(const void* source, DType from, void* target, DType to, std::size_t count) {
  if (from == DType::i32 || to == DType::i32) fail(ErrorKind::internal, "i32 elements are not converted");
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
