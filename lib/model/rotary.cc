// Frequencies and tables of rotary positions.
#include "lib/model/rotary.h"

#include <cmath>
#include <numbers>

namespace attn {
namespace {

double llama3_frequency(double frequency, const RopeConfig& rope) {
  const double wave = 2 * std::numbers::pi / frequency;
  const double original = rope.original_max_positions;
  if (wave < original / rope.high_freq_factor) return frequency;
  if (wave > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth =
      (original / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rotary_frequencies(const RopeConfig& rope) {
  std::vector<double> frequencies(static_cast<std::size_t>(rope.rotary_dims / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(rope.theta, -2.0 * static_cast<double>(i) / rope.rotary_dims);
    switch (rope.scaling) {
      case RopeScaling::none: frequencies[i] = plain; break;
      case RopeScaling::linear: frequencies[i] = plain / rope.factor; break;
      case RopeScaling::llama3: frequencies[i] = llama3_frequency(plain, rope); break;
    }
  }
  return frequencies;
}

RotaryMemory make_rotary_table(Device& device, const RopeConfig& rope, int positions) {
  RotaryMemory memory;
  memory.table.rotary_dims = rope.rotary_dims;
  if (rope.rotary_dims == 0) return memory;
  const std::vector<double> frequencies = rotary_frequencies(rope);
  const Shape shape{positions, static_cast<std::int64_t>(frequencies.size())};
  std::vector<float> cos;
  std::vector<float> sin;
  for (int position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      cos.push_back(static_cast<float>(std::cos(position * frequency)));
      sin.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  }
  memory.cos = device.allocate_tensor(DType::f32, shape, MemoryUse::other);
  memory.sin = device.allocate_tensor(DType::f32, shape, MemoryUse::other);
  device.upload(memory.cos.view.data, cos.data(), memory.cos.view.bytes());
  device.upload(memory.sin.view.data, sin.data(), memory.sin.view.bytes());
  memory.table.cos = memory.cos.view;
  memory.table.sin = memory.sin.view;
  return memory;
}

}  // namespace attn
