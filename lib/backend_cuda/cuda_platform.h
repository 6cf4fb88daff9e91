// A GPU's device, operations and attention backends.
#pragma once

#include "lib/backend/platform.h"

namespace attn {

// Throws Error{device} where there is no such GPU.
Platform open_cuda_platform(int index, const PlatformOptions& options);
// Whether this machine has a GPU that open_cuda_platform(0, ...) would try.
bool has_cuda_device();

}  // namespace attn
