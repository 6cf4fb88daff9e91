// A GPU's device, operations and attention backends.
#include "lib/backend_cuda/cuda_platform.h"

#include "lib/backend_cuda/cublas.h"
#include "lib/backend_cuda/cuda_attention.h"
#include "lib/backend_cuda/cuda_device.h"
#include "lib/backend_cuda/cuda_ops.h"

namespace attn {

Platform open_cuda_platform(int index, const PlatformOptions& options) {
  auto device = std::make_unique<CudaDevice>(index);
  const auto cublas = std::make_shared<Cublas>(*device);
  Platform platform;
  platform.ops = make_cuda_ops(*device, cublas);
  platform.attention.push_back(make_reference_attention(*device));
  platform.attention.push_back(make_baseline_attention(*device, cublas, options.baseline_scores));
  platform.attention.push_back(make_flash_attention(*device));
  platform.device = std::move(device);
  return platform;
}

bool has_cuda_device() { return cuda_device_count() > 0; }

}  // namespace attn
