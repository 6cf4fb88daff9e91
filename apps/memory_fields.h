// The memory of a run as it stands in a result record.
#pragma once

#include "lib/backend/device.h"
#include "lib/results/value.h"

namespace attn {

struct MemoryReport {
  std::size_t peak_bytes = 0;
  BytesByUse at_peak{}, peaks{};  // what was live at the peak; each purpose's own peak
  BytesByUse predicted{};         // from the sizes alone
};

// What the device's ledger has seen since reset_peaks(), beside a prediction.
MemoryReport read_memory(const Device& device, const BytesByUse& predicted);

// {peak_bytes, at_peak {use: bytes}, peaks, predicted_bytes, predicted, process_peak_rss_bytes}.
Fields memory_fields(const MemoryReport& memory);

}  // namespace attn
