// load_model: from a checkpoint's mapped files into the weights.
#include <algorithm>
#include <array>
#include <chrono>

#include "lib/model/model.h"
#include "lib/model/weight_plan.h"
#include "lib/model/weight_writer.h"
#include "lib/tensor/convert.h"

namespace attn {

namespace {

// A run of `count` elements of a stored tensor into row `row` of `rows`, from column `column` on.
void convert_run(const StoredTensor& stored, std::int64_t first, const TensorView& rows, std::int64_t row,
                 std::int64_t column, std::int64_t count) {
  const DType from = *stored.element_type();
  const std::byte* source = stored.bytes.data() + static_cast<std::size_t>(first) * size_of(from);
  std::byte* target =
      rows.as<std::byte>() + static_cast<std::size_t>(row * rows.stride(0) + column) * size_of(rows.dtype);
  convert_elements(source, from, target, rows.dtype, static_cast<std::size_t>(count));
}

void fill_as_is(const StoredTensor& stored, const TensorView& rows, std::int64_t first_row) {
  const std::int64_t columns = rows.extent(1);
  if (rows.dense()) return convert_run(stored, first_row * columns, rows, 0, 0, rows.extent(0) * columns);
  for (std::int64_t row = 0; row < rows.extent(0); ++row)
    convert_run(stored, (first_row + row) * columns, rows, row, 0, columns);
}

// stored [columns, all_rows]. Square tiles, so that both sides are read and written in runs that the cache
// holds.
void fill_transposed(const StoredTensor& stored, const TensorView& rows, std::int64_t first_row,
                     std::int64_t all_rows) {
  constexpr std::int64_t kTile = 32;
  std::array<float, kTile * kTile> tile;  // [column, row]
  std::array<float, kTile> turned;
  const DType from = *stored.element_type();
  const std::int64_t columns = rows.extent(1);
  for (std::int64_t row = 0; row < rows.extent(0); row += kTile) {
    const std::int64_t height = std::min(kTile, rows.extent(0) - row);
    for (std::int64_t column = 0; column < columns; column += kTile) {
      const std::int64_t width = std::min(kTile, columns - column);
      for (std::int64_t c = 0; c < width; ++c) {
        const auto first = static_cast<std::size_t>((column + c) * all_rows + first_row + row);
        convert_elements(stored.bytes.data() + first * size_of(from), from,
                         &tile[static_cast<std::size_t>(c * kTile)], DType::f32,
                         static_cast<std::size_t>(height));
      }
      for (std::int64_t r = 0; r < height; ++r) {
        for (std::int64_t c = 0; c < width; ++c)
          turned[static_cast<std::size_t>(c)] = tile[static_cast<std::size_t>(c * kTile + r)];
        std::byte* target =
            rows.as<std::byte>() +
            static_cast<std::size_t>((row + r) * rows.stride(0) + column) * size_of(rows.dtype);
        convert_elements(turned.data(), DType::f32, target, rows.dtype, static_cast<std::size_t>(width));
      }
    }
  }
}

// Our row (part, head, dim) is stored row (head, part, dim); part is query, key or value.
void fill_by_head(const StoredTensor& stored, const TensorView& rows, std::int64_t first_row,
                  std::int64_t heads, std::int64_t head_dim) {
  const std::int64_t columns = rows.extent(1);
  for (std::int64_t row = 0; row < rows.extent(0); ++row) {
    const std::int64_t ours = first_row + row;
    const std::int64_t part = ours / (heads * head_dim);
    const std::int64_t head = ours / head_dim % heads;
    const std::int64_t theirs = (head * 3 + part) * head_dim + ours % head_dim;
    convert_run(stored, theirs * columns, rows, row, 0, columns);
  }
}

WeightWrite write_of(const PlannedTensor& planned, const ModelConfig& config) {
  const StoredTensor* stored = planned.stored;
  const TensorMapping& mapping = planned.mapping;
  WeightWrite write;
  // A vector is a matrix with one column: its rows are ordered and stacked as those of the weight it belongs
  // to.
  TensorView all = mapping.target;
  if (all.shape.rank() == 1) all = all.reshaped({all.extent(0), 1});
  switch (mapping.arrangement) {
    case Arrangement::as_is:
      write.target = all.slice(0, mapping.first_row, mapping.shape[0]);
      write.fill = [stored](const TensorView& rows, std::int64_t first) { fill_as_is(*stored, rows, first); };
      break;
    case Arrangement::transposed:
      write.target = all.slice(0, mapping.first_row, mapping.shape[1]);
      write.fill = [stored, count = mapping.shape[1]](const TensorView& rows, std::int64_t first) {
        fill_transposed(*stored, rows, first, count);
      };
      break;
    case Arrangement::by_head:
      write.target = all;
      write.fill = [stored, heads = config.q_heads, dim = config.head_dim](const TensorView& rows,
                                                                           std::int64_t first) {
        fill_by_head(*stored, rows, first, heads, dim);
      };
      break;
  }
  return write;
}

}  // namespace

Model load_model(Device& device, const ModelSource& source, DType dtype) {
  if (!source.dir) {
    fail(ErrorKind::bad_input,
         "the weights of {} are not on this machine: get them with tools/fetch_model {}, or run with "
         "--random-weights",
         source.name, source.name);
  }
  Model model;
  model.source = source;
  model.config = read_config(*source.dir);
  const auto start = std::chrono::steady_clock::now();
  const Checkpoint checkpoint(*source.dir);
  // Checked before the memory is taken: a checkpoint that does not fit is refused in a moment.
  ModelWeights without_memory;
  without_memory.layers.resize(static_cast<std::size_t>(model.config.layers));
  check_plan(plan_weights(model.config, checkpoint, without_memory), model.config, checkpoint);

  model.weights = allocate_weights(device, model.config, dtype);
  const WeightPlan plan = plan_weights(model.config, checkpoint, model.weights);
  std::vector<WeightWrite> writes;
  for (const PlannedTensor& planned : plan.used) {
    writes.push_back(write_of(planned, model.config));
    model.load.bytes_read += planned.stored->bytes.size();
  }
  write_weights(device, model.weights, writes);
  model.load.bytes_written = model.weights.bytes;
  model.load.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

}  // namespace attn
