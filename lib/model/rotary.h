// Rotary position tables: angles in double on the host, cos and sin in f32 on the device.
#pragma once

#include <vector>

#include "lib/backend/device.h"
#include "lib/model/config.h"

namespace attn {

// Angle per position of each of the rotary_dims / 2 pairs: theta^(-2 i / rotary_dims), scaled as the config
// says. llama3: frequencies whose wave is longer than original_max_positions / low_freq_factor are divided by
// `factor`, those shorter than original_max_positions / high_freq_factor stay, those between are blended
// (LLaMA 3.1's rule).
std::vector<double> rotary_frequencies(const RopeConfig& rope);

struct RotaryMemory {
  Tensor cos, sin;  // [positions, rotary_dims / 2]
  RotaryTable table;
};

// Empty for models with learned positions.
RotaryMemory make_rotary_table(Device& device, const RopeConfig& rope, int positions);

}  // namespace attn
