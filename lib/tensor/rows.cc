// Which tensors are rows.
#include "lib/tensor/rows.h"

#include "lib/core/error.h"

namespace attn {

Rows rows_of(const TensorView& view) {
  const int last = view.shape.rank() - 1;
  Rows rows{1, view.extent(last), view.extent(last)};
  for (int axis = last - 1; axis >= 0; --axis) {
    if (view.extent(axis) == 1) continue;
    if (rows.count == 1) {
      rows.step = view.stride(axis);
    } else if (view.stride(axis) != rows.step * rows.count) {
      fail(ErrorKind::internal, "the rows of {} do not step evenly", view.shape.text());
    }
    rows.count *= view.extent(axis);
  }
  return rows;
}

}  // namespace attn
