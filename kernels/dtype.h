// DType: the element types that tensors and kernels know.
#pragma once

#include <cstddef>

namespace attn {

enum class DType : unsigned char { f32, f16, bf16, i32 };  // i32: token ids, positions and lengths

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f32 || dtype == DType::i32 ? 4 : 2; }

}  // namespace attn
