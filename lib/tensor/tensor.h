// TensorView, a typed window on device memory, and Tensor, a view that owns its bytes.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "lib/tensor/buffer.h"
#include "lib/tensor/shape.h"

namespace attn {

// Strides are in elements; the last axis is always dense. An empty view (data null) stands for "absent".
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::array<std::int64_t, Shape::kMaxRank> strides{};

  TensorView() = default;
  // Dense, row-major.
  TensorView(void* memory, DType type, const Shape& extents);

  bool empty() const { return data == nullptr; }
  bool dense() const;
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  std::int64_t extent(int axis) const { return shape[axis]; }
  std::int64_t stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }

  // `count` places of one axis from `begin` on. Throws Error{internal} outside the extent.
  TensorView slice(int axis, std::int64_t begin, std::int64_t count) const;
  // The same elements under other extents. Throws Error{internal} unless dense and of equal size.
  TensorView reshaped(const Shape& extents) const;
  // The last axis as two axes [outer, inner]; works on strided views too.
  TensorView split_last(std::int64_t outer, std::int64_t inner) const;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct Tensor {
  Buffer buffer;
  TensorView view;
};

}  // namespace attn
