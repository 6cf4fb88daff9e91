// What a tensor on a device holds, as f32 on the host.
#pragma once

#include <vector>

#include "lib/backend/device.h"
#include "lib/tensor/convert.h"

namespace attn {

inline std::vector<float> numbers(Device& device, const TensorView& view) {
  std::vector<char> bits(view.bytes());
  device.download(bits.data(), view.data, bits.size());
  std::vector<float> out(static_cast<std::size_t>(view.shape.elements()));
  convert_elements(bits.data(), view.dtype, out.data(), DType::f32, out.size());
  return out;
}

}  // namespace attn
