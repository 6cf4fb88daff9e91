// Timed repetitions of plain work.
#include "lib/measure/ceiling.h"

#include <algorithm>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/measure/statistics.h"

namespace attn {

Ceiling measure_ceiling(Device& device, double amount, const std::function<void()>& call, int least_reps,
                        double least_ms) {
  constexpr int kMostReps = 1000;
  const auto stopwatch = device.make_stopwatch();
  std::vector<double> rates;
  double passed_ms = 0;
  for (int rep = 0; rep <= kMostReps && (rep <= least_reps || passed_ms < least_ms); ++rep) {
    device.synchronize();
    stopwatch->start();
    call();
    stopwatch->mark();
    const double ms = stopwatch->milliseconds().front();
    if (rep == 0 || ms <= 0) continue;
    passed_ms += ms;
    rates.push_back(amount / (ms * 1e-3));
  }
  const auto summary = summary_of(rates);
  if (!summary) return {};
  return {summary->max, summary->median, static_cast<int>(summary->n)};
}

namespace {

// A GPU takes a while to raise its clocks; a CPU's copies are long.
constexpr int kReps = 5;
constexpr double kLeastMs = 100;

}  // namespace

Ceiling copy_ceiling(Device& device, std::size_t bytes) {
  const Buffer source = device.allocate(bytes, MemoryUse::other);
  const Buffer target = device.allocate(bytes, MemoryUse::other);
  device.fill_zero(source.data(), bytes);
  device.fill_zero(target.data(), bytes);  // touches every page, so that the copy meets no page faults
  return measure_ceiling(
      device, 2e-9 * static_cast<double>(bytes), [&] { device.copy(target.data(), source.data(), bytes); },
      kReps, kLeastMs);
}

ReadCeiling read_ceiling(Device& device, std::size_t wanted, std::size_t least) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  const std::size_t smallest = (least / kStep + 1) * kStep;
  ReadCeiling ceiling;
  Buffer buffer;
  ceiling.bytes = std::max(wanted / kStep * kStep, smallest);
  while (buffer.bytes() == 0) {
    try {
      buffer = device.allocate(ceiling.bytes, MemoryUse::other);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory || ceiling.bytes == smallest) throw;
      ceiling.bytes = std::max(ceiling.bytes / 2 / kStep * kStep, smallest);
    }
  }
  std::vector<std::uint64_t> block(kStep / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = random_bits(1, 0, i);
  fill_with_repeats(device, buffer.data(), ceiling.bytes, block.data(), kStep);
  ceiling.gb_s = measure_ceiling(
      device, 1e-9 * static_cast<double>(ceiling.bytes), [&] { device.read(buffer.data(), ceiling.bytes); },
      kReps, kLeastMs);
  return ceiling;
}

void fill_with_repeats(Device& device, void* target, std::size_t bytes, const void* block,
                       std::size_t block_bytes) {
  char* place = static_cast<char*>(target);
  std::size_t done = std::min(bytes, block_bytes);
  device.upload(place, block, done);
  while (done < bytes) {
    const std::size_t more = std::min(done, bytes - done);
    device.copy(place + done, place, more);
    done += more;
  }
}

}  // namespace attn
