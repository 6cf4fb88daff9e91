// Random numbers on the host. Compiled without contraction: a fused multiply-add would round once where the
// definition rounds twice.
#include "lib/backend/random_fill.h"

#include <vector>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"

namespace attn {

void fill_rows(const TensorView& rows, std::int64_t first_row, const RandomFill& fill) {
  const std::int64_t columns = rows.extent(1);
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (std::int64_t row = 0; row < rows.extent(0); ++row) {
    auto index = static_cast<std::uint64_t>((first_row + row) * columns);
    for (float& value : values) {
      const float product = fill.scale * near_normal(mix_bits(fill.base ^ index++));
      value = fill.centre + product;
    }
    std::byte* place =
        rows.as<std::byte>() + static_cast<std::size_t>(row * rows.stride(0)) * size_of(rows.dtype);
    convert_elements(values.data(), DType::f32, place, rows.dtype, values.size());
  }
}

}  // namespace attn
