// The device's own copy rate: the ceiling that a memory-bound figure is set beside.
#pragma once

#include <cstddef>

#include "lib/backend/device.h"

namespace attn {

// GB/s (1e9 bytes), bytes read plus bytes written, of device-to-device copies between two buffers of `bytes`:
// the median of `reps` copies after one that is thrown away.
double copy_gb_s(Device& device, std::size_t bytes, int reps);

}  // namespace attn
