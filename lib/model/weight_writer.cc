// Row ranges of all weights, shared out to the threads.
#include "lib/model/weight_writer.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>

#include "lib/core/error.h"

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

// Rows `begin` ... `end` - 1 of a write, whose row 0 would lie where `target` begins, in ranges of about a
// megabyte: small enough to balance, large enough to hide the cost of handing out.
void split(const WeightWrite& write, const TensorView& target, std::int64_t begin, std::int64_t end,
           std::vector<RowRange>& out) {
  constexpr std::int64_t kRangeElements = 1 << 18;
  const std::int64_t step =
      std::max<std::int64_t>(1, kRangeElements / std::max<std::int64_t>(1, target.extent(1)));
  for (std::int64_t first = begin; first < end; first += step)
    out.push_back({&write, target, first, std::min(step, end - first)});
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

// A write's rows as byte offsets in a buffer of the device.
struct WriteRows {
  const WeightWrite* write;
  TensorView target;  // [rows, columns] on the device
  std::size_t first, step, size;

  // Rows that begin before `offset`.
  std::int64_t before(std::size_t offset) const {
    if (offset <= first) return 0;
    return std::min(target.extent(0), static_cast<std::int64_t>((offset - first + step - 1) / step));
  }
  // The beginning of the row that `offset` lies within, or `offset`.
  std::size_t not_within(std::size_t offset) const {
    const std::int64_t count = before(offset);
    if (count == 0) return offset;
    const std::size_t begin = first + static_cast<std::size_t>(count - 1) * step;
    return offset < begin + size ? begin : offset;
  }
};

std::vector<WriteRows> rows_in(const Buffer& buffer, const std::vector<WeightWrite>& writes) {
  std::vector<WriteRows> all;
  const auto* begin = static_cast<const std::byte*>(buffer.data());
  for (const WeightWrite& write : writes) {
    const auto* place = static_cast<const std::byte*>(write.target.data);
    if (std::less<>()(place, begin) || !std::less<>()(place, begin + buffer.bytes())) continue;
    const TensorView target = as_matrix(write.target);
    const std::size_t element = size_of(target.dtype);
    all.push_back({&write, target, static_cast<std::size_t>(place - begin),
                   static_cast<std::size_t>(target.stride(0)) * element,
                   static_cast<std::size_t>(target.extent(1)) * element});
  }
  return all;
}

// The last place up to `wanted` where a buffer can be cut without cutting a row.
std::size_t cut_before(std::size_t wanted, const std::vector<WriteRows>& all) {
  for (std::size_t cut = wanted;;) {
    const std::size_t last = cut;
    for (const WriteRows& rows : all) cut = rows.not_within(cut);
    if (cut == last) return cut;
  }
}

void upload_pieces(Device& device, const Buffer& buffer, const std::vector<WriteRows>& all,
                   std::size_t piece_bytes) {
  for (std::size_t begin = 0; begin < buffer.bytes();) {
    const std::size_t wanted = std::min(begin + piece_bytes, buffer.bytes());
    const std::size_t end = wanted == buffer.bytes() ? wanted : cut_before(wanted, all);
    if (end <= begin)
      fail(ErrorKind::internal, "a row of a weight is longer than a piece of {} bytes", piece_bytes);
    device.upload_filled(static_cast<std::byte*>(buffer.data()) + begin, end - begin, [&](void* piece) {
      std::vector<RowRange> ranges;
      for (const WriteRows& rows : all) {
        const std::int64_t first = rows.before(begin);
        const std::int64_t last = rows.before(end);
        if (first == last) continue;
        // Where row 0 would lie if all of the buffer lay beside the piece; only rows of the piece are
        // touched.
        TensorView target = rows.target;
        target.data = static_cast<std::byte*>(piece) +
                      (static_cast<std::ptrdiff_t>(rows.first) - static_cast<std::ptrdiff_t>(begin));
        split(*rows.write, target, first, last, ranges);
      }
      fill_all(ranges);
    });
    begin = end;
  }
}

}  // namespace

void write_weights(Device& device, const ModelWeights& weights, const std::vector<WeightWrite>& writes,
                   std::size_t piece_bytes) {
  std::vector<WeightWrite> by_host;
  for (const WeightWrite& write : writes) {
    if (!write.random || !device.fill_random(as_matrix(write.target), *write.random))
      by_host.push_back(write);
  }
  if (device.host_memory()) {
    std::vector<RowRange> ranges;
    for (const WeightWrite& write : by_host)
      split(write, as_matrix(write.target), 0, as_matrix(write.target).extent(0), ranges);
    fill_all(ranges);
  } else if (!by_host.empty()) {
    if (by_host.size() != writes.size())
      fail(ErrorKind::internal, "an upload would write over weights made on the device");
    for (const Buffer& buffer : weights.storage)
      upload_pieces(device, buffer, rows_in(buffer, by_host), piece_bytes);
  }
  device.synchronize();
}

}  // namespace attn
