// Timed copies.
#include "lib/measure/bandwidth.h"

#include <vector>

#include "lib/measure/statistics.h"

namespace attn {

double copy_gb_s(Device& device, std::size_t bytes, int reps) {
  const Buffer source = device.allocate(bytes, MemoryUse::other);
  const Buffer target = device.allocate(bytes, MemoryUse::other);
  device.fill_zero(source.data(), bytes);
  device.fill_zero(target.data(), bytes);  // touches every page, so that the copy meets no page faults
  const auto stopwatch = device.make_stopwatch();
  std::vector<double> rates;
  for (int rep = 0; rep <= reps; ++rep) {
    device.synchronize();
    stopwatch->start();
    device.copy(target.data(), source.data(), bytes);
    stopwatch->mark();
    const double ms = stopwatch->milliseconds().front();
    if (rep > 0) rates.push_back(2.0 * static_cast<double>(bytes) / (ms * 1e6));
  }
  return median(rates).value_or(0);
}

}  // namespace attn
