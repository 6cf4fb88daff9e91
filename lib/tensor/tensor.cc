// Shapes and views.
#include "lib/tensor/tensor.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {

Shape::Shape(std::initializer_list<std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  if (rank_ > kMaxRank) fail(ErrorKind::internal, "a shape has at most {} axes, not {}", kMaxRank, rank_);
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int axis = 0; axis < rank_; ++axis) out += (axis > 0 ? ", " : "") + std::to_string((*this)[axis]);
  return out + "]";
}

TensorView::TensorView(void* memory, DType type, const Shape& extents)
    : data(memory), dtype(type), shape(extents) {
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  }
}

bool TensorView::dense() const {
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && stride(axis) != step) return false;
    step *= shape[axis];
  }
  return true;
}

TensorView TensorView::slice(int axis, std::int64_t begin, std::int64_t count) const {
  if (axis < 0 || axis >= shape.rank() || begin < 0 || count < 0 || begin + count > shape[axis])
    fail(ErrorKind::internal, "slice {}+{} of axis {} lies outside {}", begin, count, axis, shape.text());
  TensorView out = *this;
  out.data = static_cast<char*>(data) + begin * stride(axis) * static_cast<std::int64_t>(size_of(dtype));
  out.shape[axis] = count;
  return out;
}

TensorView TensorView::reshaped(const Shape& extents) const {
  if (!dense() || extents.elements() != shape.elements())
    fail(ErrorKind::internal, "{} cannot be seen as {}", shape.text(), extents.text());
  return {data, dtype, extents};
}

TensorView TensorView::split_last(std::int64_t outer, std::int64_t inner) const {
  const int last = shape.rank() - 1;
  if (last < 0 || last + 1 >= Shape::kMaxRank || shape[last] != outer * inner)
    fail(ErrorKind::internal, "the last axis of {} is not {} x {}", shape.text(), outer, inner);
  TensorView out = *this;
  switch (last) {
    case 0: out.shape = {outer, inner}; break;
    case 1: out.shape = {shape[0], outer, inner}; break;
    default: out.shape = {shape[0], shape[1], outer, inner}; break;
  }
  out.strides[static_cast<std::size_t>(last)] = inner;
  out.strides[static_cast<std::size_t>(last + 1)] = 1;
  return out;
}

}  // namespace attn
