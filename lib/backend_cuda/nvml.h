// NVML, NVIDIA's management library, loaded at run time: clocks, power, temperature and energy of a GPU.
#pragma once

#include <string>

#include "lib/backend/sensors.h"

namespace attn {

// The GPU at this PCI address ("0000:1b:00.0": an index would count other GPUs than CUDA's where
// CUDA_VISIBLE_DEVICES is set). Never throws: no library, no permission or no such GPU is told in words, and
// a single reading that is not supported in SensorInfo::missing.
SensorAccess open_nvml_sensors(const std::string& pci_address,
                               const std::string& library = "libnvidia-ml.so.1");

}  // namespace attn
