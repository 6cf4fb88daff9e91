// The same numbers on a GPU and on the CPU, for tests that compare an operation of both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/core/rng.h"
#include "lib/tensor/convert.h"

namespace attn {

inline constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16};

// Unit roundoffs of the type that results of size 1 may be off by: the products' inputs and their output are
// rounded once each.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 4 * 0x1p-11;
    case DType::bf16: return 4 * 0x1p-8;
    default: return 4e-6;
  }
}

// The same [rows, size] matrix on both devices, rows `gap` elements apart, poison between and around. On the
// GPU in `dtype`, on the CPU the same numbers in f32.
class Twin {
 public:
  Twin(Platform& gpu, DType dtype, std::int64_t rows, std::int64_t size, std::int64_t gap = 0)
      : gpu_(gpu), dtype_(dtype), rows_(rows), size_(size), step_(size + gap) {
    const std::int64_t count = rows * step_ + 2 * kEdge;
    host_.assign(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
    buffer_ = gpu.device->allocate(host_.size() * size_of(dtype), MemoryUse::other);
    upload();
  }
  Twin random(std::uint64_t seed, float scale = 1, float centre = 0) && {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < size_; ++c)
        host_[at(r, c)] = centre + scale * random_normal(seed, static_cast<std::uint64_t>(r),
                                                         static_cast<std::uint64_t>(c));
    }
    upload();
    return std::move(*this);
  }
  TensorView on_cpu() { return view(host_.data(), DType::f32); }
  TensorView on_gpu() { return view(buffer_.data(), dtype_); }
  LinearWeights linear_cpu(Twin* bias) {
    return {on_cpu(), bias == nullptr ? TensorView() : bias->row_cpu()};
  }
  LinearWeights linear_gpu(Twin* bias) {
    return {on_gpu(), bias == nullptr ? TensorView() : bias->row_gpu()};
  }
  TensorView row_cpu() { return on_cpu().reshaped({size_}); }
  TensorView row_gpu() { return on_gpu().reshaped({size_}); }

  // What the GPU holds now, bit for bit.
  std::vector<char> gpu_bits() const {
    std::vector<char> bits(host_.size() * size_of(dtype_));
    gpu_.device->download(bits.data(), buffer_.data(), bits.size());
    return bits;
  }
  // The largest difference between the devices, in units of the largest value; infinite where one has written
  // where the other has not.
  double difference() {
    std::vector<char> bits(host_.size() * size_of(dtype_));
    gpu_.device->download(bits.data(), buffer_.data(), bits.size());
    std::vector<float> gpu(host_.size());
    convert_elements(bits.data(), dtype_, gpu.data(), DType::f32, gpu.size());
    double worst = 0;
    double scale = 0;
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      if (std::isnan(host_[i]) && std::isnan(gpu[i])) continue;
      const double off = std::fabs(static_cast<double>(host_[i]) - static_cast<double>(gpu[i]));
      if (!(off <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, off);
      scale = std::max(scale, std::fabs(static_cast<double>(host_[i])));
    }
    return scale == 0 ? worst : worst / scale;
  }

 private:
  static constexpr std::int64_t kEdge = 64;

  std::size_t at(std::int64_t r, std::int64_t c) const {
    return static_cast<std::size_t>(kEdge + r * step_ + c);
  }
  TensorView view(void* memory, DType dtype) const {
    TensorView out(static_cast<char*>(memory) + kEdge * static_cast<std::int64_t>(size_of(dtype)), dtype,
                   {rows_, size_});
    out.strides[0] = step_;
    return out;
  }
  void upload() {
    std::vector<char> bits(host_.size() * size_of(dtype_));
    convert_elements(host_.data(), DType::f32, bits.data(), dtype_, host_.size());
    gpu_.device->upload(buffer_.data(), bits.data(), bits.size());
    convert_elements(bits.data(), dtype_, host_.data(), DType::f32, host_.size());  // rounded as on the GPU
  }

  Platform& gpu_;
  DType dtype_;
  std::int64_t rows_, size_, step_;
  std::vector<float> host_;
  Buffer buffer_;
};

}  // namespace attn
