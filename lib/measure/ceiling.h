// Ceiling: the fastest that a device was seen to do one kind of work, measured in this run.
#pragma once

#include <cstddef>
#include <functional>

#include "lib/backend/device.h"

namespace attn {

struct Ceiling {
  double best = 0;    // units a second of the fastest repetition: nothing should be faster
  double median = 0;  // of the repetitions
  int reps = 0;

  double spread() const { return best > 0 ? (best - median) / best : 0; }
};

// Rates of `call`, which does `amount` of work: one call that is thrown away, then at least `least_reps`, and
// more until `least_ms` have passed, each timed alone.
Ceiling measure_ceiling(Device& device, double amount, const std::function<void()>& call, int least_reps,
                        double least_ms);

// GB/s (1e9 bytes), bytes read plus bytes written, of device-to-device copies of `bytes`.
Ceiling copy_ceiling(Device& device, std::size_t bytes);

// GB/s of reading alone.
struct ReadCeiling {
  Ceiling gb_s;
  std::size_t bytes = 0;  // of the buffer
};
// From a buffer of `wanted` bytes, or as much of it as there is memory for. Throws Error{out_of_memory} where
// not even `least` bytes are to be had: a smaller buffer would measure the cache.
ReadCeiling read_ceiling(Device& device, std::size_t wanted, std::size_t least);

// Fills device memory with a block of host memory, again and again: random values at the cost of a copy.
// (Work on zeros draws less power and is faster than real work.)
void fill_with_repeats(Device& device, void* target, std::size_t bytes, const void* block,
                       std::size_t block_bytes);

}  // namespace attn
