// From the ledger to fields.
#include "apps/memory_fields.h"

#include <numeric>

#include <sys/resource.h>

namespace attn {
namespace {

Fields by_use(const BytesByUse& bytes) {
  Fields fields;
  for (const auto& [use, name] : kMemoryUseNames.entries) fields[name] = bytes[static_cast<std::size_t>(use)];
  return fields;
}

}  // namespace

MemoryReport read_memory(const Device& device, const BytesByUse& predicted) {
  const MemoryLedger& ledger = device.memory();
  return {ledger.peak_bytes(), ledger.at_peak(), ledger.peaks(), predicted};
}

Fields memory_fields(const MemoryReport& memory) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {
      {"peak_bytes", memory.peak_bytes},
      {"at_peak", by_use(memory.at_peak)},
      {"peaks", by_use(memory.peaks)},
      {"predicted_bytes", std::accumulate(memory.predicted.begin(), memory.predicted.end(), std::size_t{0})},
      {"predicted", by_use(memory.predicted)},
      {"process_peak_rss_bytes", static_cast<std::int64_t>(usage.ru_maxrss) * 1024}};
}

}  // namespace attn
