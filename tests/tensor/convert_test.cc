// Conversions between f32, f16 and bf16 against arithmetic on the values themselves.
#include "lib/tensor/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/tensor/dtype_names.h"
#include "tests/catch.h"

using namespace attn;

namespace {

// The value of a small float format from its definition: sign, exponent and mantissa fields.
double value_of(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

struct Format {
  int mantissa_bits, bias;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

const Format kF16{10, 15, f16_to_f32, f32_to_f16};
const Format kBf16{7, 127, bf16_to_f32, f32_to_bf16};

bool is_infinite(const Format& format, std::uint16_t bits) { return std::isinf(format.widen(bits)); }

// Every finite pair of neighbours: values below, at and above their midpoint round as nearest, ties to even.
void check_rounding(const Format& format) {
  int wrong = 0;
  for (std::uint32_t low = 0; low < 0x7fff; ++low) {
    const auto a = static_cast<std::uint16_t>(low);
    const auto b = static_cast<std::uint16_t>(low + 1);
    if (is_infinite(format, a) || std::isnan(format.widen(a))) break;
    // Past the largest finite value the next step would be as large as the last one.
    const double below = static_cast<double>(format.widen(a));
    const double above =
        is_infinite(format, b)
            ? 2 * below - static_cast<double>(format.widen(static_cast<std::uint16_t>(low - 1)))
            : static_cast<double>(format.widen(b));
    const auto middle = static_cast<float>((below + above) / 2);
    const std::uint16_t even = (low & 1U) == 0 ? a : b;
    for (const float sign : {1.0F, -1.0F}) {
      const auto sign_bit = static_cast<std::uint16_t>(sign < 0 ? 0x8000 : 0);
      wrong += format.narrow(sign * middle) != (even | sign_bit);
      wrong += format.narrow(sign * std::nextafter(middle, 0.0F)) != (a | sign_bit);
      wrong += format.narrow(sign * std::nextafter(middle, std::numeric_limits<float>::infinity())) !=
               (b | sign_bit);
    }
  }
  CHECK(wrong == 0);
}

void check_widening(const Format& format) {
  int wrong = 0;
  for (std::uint32_t n = 0; n < 65536; ++n) {
    const auto bits = static_cast<std::uint16_t>(n);
    const double truth = value_of(bits, format.mantissa_bits, format.bias);
    const float wide = format.widen(bits);
    if (std::isnan(truth)) {
      wrong += !std::isnan(wide) || !std::isnan(format.widen(format.narrow(wide)));
    } else {
      wrong += static_cast<double>(wide) != truth || std::signbit(wide) != ((bits & 0x8000) != 0);
      wrong += format.narrow(wide) != bits;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("all 65536 f16 and bf16 numbers widen to their value and narrow back to themselves") {
  check_widening(kF16);
  check_widening(kBf16);
}

TEST_CASE("narrowing rounds to nearest with ties to even everywhere") {
  check_rounding(kF16);
  check_rounding(kBf16);
}

TEST_CASE("narrowing keeps infinities and NaN and overflows to infinity") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(f32_to_f16(infinity) == 0x7c00);
  CHECK(f32_to_f16(-infinity) == 0xfc00);
  CHECK(f32_to_f16(65519.996F) == 0x7bff);
  CHECK(f32_to_f16(65520.0F) == 0x7c00);
  CHECK(f32_to_f16(-1e30F) == 0xfc00);
  CHECK(f32_to_f16(1e-30F) == 0);
  CHECK(f32_to_f16(-0.0F) == 0x8000);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(f32_to_bf16(-infinity) == 0xff80);
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001U)))));
  CHECK(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0xff800001U)))));
}

TEST_CASE("converting arrays does what converting each element does") {
  constexpr std::size_t kCount = 70001;  // above the size at which threads share the work
  std::vector<float> source(kCount);
  for (std::size_t i = 0; i < kCount; ++i) source[i] = random_normal(1, 2, i);
  for (DType dtype : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> narrow(kCount);
    std::vector<float> wide(kCount);
    convert_elements(source.data(), DType::f32, narrow.data(), dtype, kCount);
    convert_elements(narrow.data(), dtype, wide.data(), DType::f32, kCount);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint16_t bits = dtype == DType::f16 ? f32_to_f16(source[i]) : f32_to_bf16(source[i]);
      wrong += bits != narrow[i] || wide[i] != (dtype == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits));
    }
    CHECK(wrong == 0);
  }
  const DType other = DType::bf16;
  std::vector<std::uint16_t> half(kCount);
  std::vector<std::uint16_t> brain(kCount);
  convert_elements(source.data(), DType::f32, half.data(), DType::f16, kCount);
  convert_elements(half.data(), DType::f16, brain.data(), other, kCount);
  CHECK(brain[17] == f32_to_bf16(f16_to_f32(half[17])));
}

TEST_CASE("converting reads an unaligned source") {
  std::vector<char> bytes(4 * 8 + 1);
  for (int i = 0; i < 8; ++i) {
    const float value = 0.5F * static_cast<float>(i);
    std::memcpy(bytes.data() + 1 + 4 * i, &value, 4);
  }
  std::vector<float> out(8);
  convert_elements(bytes.data() + 1, DType::f32, out.data(), DType::f32, 8);
  CHECK(out[7] == 3.5F);
  CHECK_THROWS_AS(convert_elements(bytes.data(), DType::i32, out.data(), DType::f32, 1), Error);
}

TEST_CASE("element types are known by their short and their long names") {
  CHECK(kDTypeNames.parse("bf16", "dtype") == DType::bf16);
  CHECK(kDTypeNames.parse("float16", "dtype") == DType::f16);
  CHECK(kDTypeNames.name(DType::f32) == "f32");
  CHECK_THROWS_AS(kDTypeNames.parse("f8", "dtype"), Error);
}
