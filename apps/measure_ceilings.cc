// Sizes and repetitions of the ceilings' measurements.
#include "apps/measure_ceilings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{256} << 20;
constexpr std::size_t kReadBytesOfGpu = std::size_t{8} << 30;
constexpr std::size_t kLeastCaches = 8;       // of a GPU: what stays in the cache is then an eighth at most
constexpr std::size_t kLeastCachesOfCpu = 4;  // its cache can be hundreds of MB
constexpr int kProductOfGpu = 8192;
constexpr int kFirstProductOfCpu = 1024;
constexpr double kProductMsOfCpu = 20;

// A product with nothing beside it: the term that a layer adds to its residual stream. (Its result is added
// to what is there, which costs reading it: 1 part in 4000 of the operations at n = 8192.)
Ceiling product_ceiling(Platform& platform, DType dtype, int size, int reps, double least_ms) {
  Device& device = *platform.device;
  constexpr std::size_t kBlock = 1000003;  // prime: no two rows begin alike
  std::vector<float> values(kBlock);
  for (std::size_t i = 0; i < kBlock; ++i) values[i] = random_normal(1, 0, i);
  std::vector<char> block(kBlock * size_of(dtype));
  const auto filled = [&](float factor) {
    std::vector<float> scaled(values);
    for (float& value : scaled) value *= factor;
    convert_elements(scaled.data(), DType::f32, block.data(), dtype, kBlock);
    Tensor tensor = device.allocate_tensor(dtype, {size, size}, MemoryUse::other);
    fill_with_repeats(device, tensor.view.data, tensor.view.bytes(), block.data(), block.size());
    return tensor;
  };
  const Tensor in = filled(1);
  const Tensor weight = filled(1 / std::sqrt(static_cast<float>(size)));  // sums of size 1
  const Tensor out = filled(1);
  const LinearWeights linear{weight.view, {}};
  const double flops = 2.0 * size * size * static_cast<double>(size);
  return measure_ceiling(
      device, flops * 1e-12,
      [&] {
        platform.ops->project_add(out.view, std::array{AddTerm{in.view, &linear}});
      },
      reps, least_ms);
}

void add_product(Ceilings& ceilings, Platform& platform, DType dtype) {
  const bool cpu = platform.device->host_memory();
  int size = cpu ? kFirstProductOfCpu : kProductOfGpu;
  if (cpu) {
    for (; size < kProductOfGpu; size *= 2) {
      const double rate = product_ceiling(platform, dtype, size, 1, 0).best * 1e12;
      if (2.0 * size * size * static_cast<double>(size) / rate * 1e3 >= kProductMsOfCpu) break;
    }
  }
  for (; size >= kFirstProductOfCpu; size /= 2) {
    try {
      ceilings.product_tflops = product_ceiling(platform, dtype, size, 5, 100);
      ceilings.product_size = size;
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      ceilings.product_reason = error.what();
    }
  }
}

void add_read(Ceilings& ceilings, Device& device, double most_bytes) {
  if (ceilings.cache_bytes == 0 || most_bytes <= static_cast<double>(ceilings.cache_bytes)) {
    ceilings.read_reason = "not measured: no work of this run is known to exceed the last-level cache";
    return;
  }
  const bool cpu = device.host_memory();
  const std::size_t least = ceilings.cache_bytes * (cpu ? kLeastCachesOfCpu : kLeastCaches);
  try {
    const ReadCeiling read = read_ceiling(device, cpu ? least : kReadBytesOfGpu, least);
    ceilings.read_gb_s = read.gb_s;
    ceilings.read_bytes = read.bytes;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    ceilings.read_reason = error.what();
  }
}

}  // namespace

Ceilings measure_ceilings(Platform& platform, DType dtype, double most_bytes) {
  Device& device = *platform.device;
  Ceilings ceilings;
  ceilings.cache_bytes = device.info().cache_bytes;
  add_product(ceilings, platform, dtype);
  add_read(ceilings, device, most_bytes);
  try {
    ceilings.copy_gb_s = copy_ceiling(device, kCopyBytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;  // its figure is then missing
  }
  return ceilings;
}

std::string ceilings_text(const Ceilings& ceilings, DType dtype) {
  std::string text = "ceilings of this device:";
  const auto add = [&](const std::string& part) { text += (text.back() == ':' ? " " : ", ") + part; };
  if (ceilings.read_gb_s) add(fmt::format("read {:.1f} GB/s", ceilings.read_gb_s->best));
  if (ceilings.copy_gb_s.best > 0) add(fmt::format("copy {:.1f} GB/s", ceilings.copy_gb_s.best));
  if (ceilings.product_tflops)
    add(fmt::format("{} product {:.3f} TFLOP/s", kDTypeNames.name(dtype), ceilings.product_tflops->best));
  return text;
}

}  // namespace attn
