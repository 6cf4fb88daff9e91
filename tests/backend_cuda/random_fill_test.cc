// Random weights made on a GPU are those made on the host, bit for bit.
#include "lib/backend/random_fill.h"

#include <cstring>
#include <vector>

#include "lib/core/rng.h"
#include "lib/model/model.h"
#include "lib/tensor/dtype_names.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

// Rows of `columns` elements, `gap` elements apart, poison between.
void check_matrix(Device& device, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap,
                  const RandomFill& fill) {
  CAPTURE(kDTypeNames.name(dtype), rows, columns, gap);
  const std::int64_t step = columns + gap;
  std::vector<unsigned char> host(static_cast<std::size_t>(rows * step) * size_of(dtype), 0xff);
  const Buffer buffer = device.allocate(host.size(), MemoryUse::other);
  device.upload(buffer.data(), host.data(), host.size());
  TensorView there(buffer.data(), dtype, {rows, columns});
  TensorView here(host.data(), dtype, {rows, columns});
  there.strides[0] = here.strides[0] = step;
  REQUIRE(device.fill_random(there, fill));
  fill_rows(here, 0, fill);
  std::vector<unsigned char> back(host.size());
  device.download(back.data(), buffer.data(), back.size());
  CHECK(back == host);
}

}  // namespace

TEST_CASE("a GPU draws the random numbers of the host") {
  ATTN_OPEN_GPU(platform);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const RandomFill& fill :
         {RandomFill{mix_bits(1), 1, 0}, RandomFill{mix_bits(2), 0.05F, 1}, RandomFill{~0ULL, 0.019764F, 0},
          RandomFill{0, 1e-6F, 0}}) {  // deep in f16's subnormal numbers
      check_matrix(*platform.device, dtype, 1, 1, 0, fill);
      check_matrix(*platform.device, dtype, 3, 61, 5, fill);
      check_matrix(*platform.device, dtype, 5, 64, 8, fill);
      check_matrix(*platform.device, dtype, 70000, 8, 0, fill);
      check_matrix(*platform.device, dtype, 1, 100003, 0, fill);
      check_matrix(*platform.device, dtype, 517, 2560, 640, fill);
    }
  }
}

TEST_CASE("a random model on a GPU has the bits of the one on the CPU") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const char* name : {"pythia-14m", "pythia-70m", "gpt2"}) {
    const ModelSource source{name, std::nullopt, "preset"};
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      CAPTURE(name, kDTypeNames.name(dtype));
      const Model there = random_model(*gpu.device, source, dtype, 11);
      const Model here = random_model(*cpu.device, source, dtype, 11);
      CHECK(there.load.bytes_written == here.load.bytes_written);
      const auto same = [&](const TensorView& a, const TensorView& b) {
        if (a.empty() != b.empty()) return false;
        if (a.empty()) return true;
        const std::int64_t rows = a.shape.rank() == 1 ? 1 : a.extent(0);
        const auto bytes = static_cast<std::size_t>(a.extent(a.shape.rank() - 1)) * size_of(dtype);
        const auto step = static_cast<std::size_t>(rows == 1 ? 0 : a.stride(0)) * size_of(dtype);
        // With what lies between the rows, which is not compared.
        std::vector<std::byte> back(step * static_cast<std::size_t>(rows - 1) + bytes);
        gpu.device->download(back.data(), a.data, back.size());
        for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
          if (std::memcmp(back.data() + row * step, b.as<std::byte>() + row * step, bytes) != 0) return false;
        }
        return true;
      };
      CHECK(same(there.weights.embedding.tokens, here.weights.embedding.tokens));
      CHECK(same(there.weights.embedding.positions, here.weights.embedding.positions));
      CHECK(same(there.weights.final_norm.weight, here.weights.final_norm.weight));
      CHECK(same(there.weights.head.weight, here.weights.head.weight));
      for (std::size_t n = 0; n < here.weights.layers.size(); ++n) {
        CAPTURE(n);
        const LayerWeights& a = there.weights.layers[n];
        const LayerWeights& b = here.weights.layers[n];
        CHECK(same(a.attention_norm.weight, b.attention_norm.weight));
        CHECK(same(a.mlp_norm.bias, b.mlp_norm.bias));
        for (const auto& [x, y] : {std::pair(&a.qkv, &b.qkv), std::pair(&a.attention_out, &b.attention_out),
                                   std::pair(&a.mlp_in, &b.mlp_in), std::pair(&a.mlp_out, &b.mlp_out)}) {
          CHECK(same(x->weight, y->weight));
          CHECK(same(x->bias, y->bias));
        }
      }
    }
  }
}

TEST_CASE("pieces that the host fills arrive on a GPU in order") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  constexpr std::size_t kBytes = 3 * kFilledBytes + 12345;
  const Buffer buffer = device.allocate(kBytes, MemoryUse::other);
  const auto value = [](std::size_t i) { return static_cast<unsigned char>((i * 2654435761U) >> 11); };
  for (std::size_t begin = 0; begin < kBytes; begin += kFilledBytes) {
    const std::size_t size = std::min(kFilledBytes, kBytes - begin);
    device.upload_filled(static_cast<char*>(buffer.data()) + begin, size, [&](void* place) {
      for (std::size_t i = 0; i < size; ++i) static_cast<unsigned char*>(place)[i] = value(begin + i);
    });
  }
  std::vector<unsigned char> back(kBytes);
  device.download(back.data(), buffer.data(), kBytes);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kBytes; ++i) wrong += back[i] != value(i);
  CHECK(wrong == 0);
}
