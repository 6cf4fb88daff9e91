// The CPU's device, operations and attention backends.
#pragma once

#include "lib/backend/platform.h"

namespace attn {

Platform open_cpu_platform(const PlatformOptions& options);

}  // namespace attn
