// Names of element types, as users type them and records show them.
#pragma once

#include "kernels/dtype.h"
#include "lib/core/enum_names.h"

namespace attn {

inline constexpr auto kDTypeNames = name_table<DType>({{DType::f32, "f32"},
                                                       {DType::f16, "f16"},
                                                       {DType::bf16, "bf16"},
                                                       {DType::i32, "i32"},
                                                       {DType::f32, "float32"},
                                                       {DType::f16, "float16"},
                                                       {DType::bf16, "bfloat16"}});

}  // namespace attn
