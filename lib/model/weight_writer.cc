// Row ranges of all weights, shared out to the threads.
#include "lib/model/weight_writer.h"

#include <algorithm>
#include <exception>
#include <memory>

namespace attn {

namespace {

struct RowRange {
  const WeightWrite* write;
  TensorView target;  // on the host
  std::int64_t first_row, rows;
};

TensorView as_matrix(const TensorView& view) {
  return view.shape.rank() == 1 ? view.reshaped({1, view.extent(0)}) : view;
}

// Ranges of about a megabyte: small enough to balance, large enough to hide the cost of handing out.
void split(const WeightWrite& write, const TensorView& target, std::vector<RowRange>& out) {
  constexpr std::int64_t kRangeElements = 1 << 18;
  const std::int64_t rows = target.extent(0);
  const std::int64_t step =
      std::max<std::int64_t>(1, kRangeElements / std::max<std::int64_t>(1, target.extent(1)));
  for (std::int64_t first = 0; first < rows; first += step)
    out.push_back({&write, target, first, std::min(step, rows - first)});
}

void fill_all(const std::vector<RowRange>& ranges) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RowRange& range = ranges[i];
    try {
      range.write->fill(range.target.slice(0, range.first_row, range.rows), range.first_row);
    } catch (...) {
#pragma omp critical(attn_weight_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

bool lies_in(const TensorView& view, const Buffer& buffer) {
  const auto* begin = static_cast<const std::byte*>(buffer.data());
  const auto* place = static_cast<const std::byte*>(view.data);
  return !std::less<>()(place, begin) && std::less<>()(place, begin + buffer.bytes());
}

}  // namespace

void write_weights(Device& device, const ModelWeights& weights, const std::vector<WeightWrite>& writes) {
  if (device.host_memory()) {
    std::vector<RowRange> ranges;
    for (const WeightWrite& write : writes) split(write, as_matrix(write.target), ranges);
    return fill_all(ranges);
  }
  for (const Buffer& buffer : weights.storage) {
    // Not std::vector: its zeroing would touch every page on one thread first.
    const std::unique_ptr<std::byte[]> mirror(new std::byte[buffer.bytes()]);
    std::vector<RowRange> ranges;
    for (const WeightWrite& write : writes) {
      if (!lies_in(write.target, buffer)) continue;
      TensorView target = as_matrix(write.target);
      target.data = mirror.get() + (target.as<std::byte>() - static_cast<std::byte*>(buffer.data()));
      split(write, target, ranges);
    }
    fill_all(ranges);
    device.upload(buffer.data(), mirror.get(), buffer.bytes());
  }
}

}  // namespace attn
