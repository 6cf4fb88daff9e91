// The CPU's device, operations and attention backends.
#include "lib/backend_cpu/cpu_platform.h"

#include "kernels/cpu/threads.h"
#include "lib/backend_cpu/cpu_attention.h"
#include "lib/backend_cpu/cpu_device.h"
#include "lib/backend_cpu/cpu_ops.h"
#include "lib/core/error.h"

namespace attn {

Platform open_cpu_platform(const PlatformOptions& options) {
  if (options.threads < 0)
    fail(ErrorKind::usage, "threads must be 0 (all cores) or more, not {}", options.threads);
  cpu::correct_blas_core();
  cpu::set_threads(options.threads);
  Platform platform;
  platform.device = std::make_unique<CpuDevice>();
  platform.ops = make_cpu_ops();
  platform.attention = make_cpu_attention();
  return platform;
}

}  // namespace attn
