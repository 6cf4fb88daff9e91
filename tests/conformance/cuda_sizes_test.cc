// Class 7 of kernels/README.md. Places beyond 2^31 elements: views whose sequences, heads or tokens lie
// gigabytes apart give the bits of dense ones.
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/tensor/convert.h"
#include "tests/conformance/attention_run.h"
#include "tests/gpu.h"

using namespace attn;
using namespace attn::conformance;

namespace {

enum class Apart { sequences, heads, tokens };

// Copies q, k or v row by row out of a dense tensor to where `view` has them, or back.
void copy_rows(Device& device, const TensorView& target, const TensorView& source) {
  const Shape& shape = target.shape;
  const auto row = [&](const TensorView& view, std::int64_t b, std::int64_t t, std::int64_t h) {
    return view.as<char>() + (b * view.stride(0) + t * view.stride(1) + h * view.stride(2)) *
                                 static_cast<std::int64_t>(size_of(view.dtype));
  };
  const auto bytes = static_cast<std::size_t>(shape[3]) * size_of(target.dtype);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t t = 0; t < shape[1]; ++t)
      for (std::int64_t h = 0; h < shape[2]; ++h)
        device.copy(row(target, b, t, h), row(source, b, t, h), bytes);
}

std::vector<char> bytes_of(Device& device, const TensorView& dense) {
  std::vector<char> bytes(dense.bytes());
  device.download(bytes.data(), dense.data, bytes.size());
  return bytes;
}

// The stride of the axis that lies far apart, so that its last step begins past 2^31 elements.
std::int64_t far_step(std::int64_t steps) {
  constexpr std::int64_t kPast = (std::int64_t{1} << 31) + (std::int64_t{1} << 20);
  return (kPast / steps + 63) / 64 * 64;
}

// `memory` holds views of q, k, v and out, each far apart along one axis and side by side along it.
void check_far_apart(Platform& platform, const std::string& mode, AttentionProblem p, Apart apart,
                     const Buffer& memory) {
  p.scale = 1.0F / std::sqrt(static_cast<float>(p.head_dim));
  CAPTURE(mode, p.text(), static_cast<int>(apart));
  Device& device = *platform.device;
  AttentionBackend& backend = platform.backend(mode);
  REQUIRE_FALSE(backend.why_not(p).has_value());

  Case test{"far apart", p, Layout::dense, Fill::normal};
  const Inputs inputs = make_inputs(test, p.dtype);
  const Uploaded q(device, inputs.q_data, p.dtype);
  const Uploaded k(device, inputs.k_data, p.dtype);
  const Uploaded v(device, inputs.v_data, p.dtype);
  AttentionTensors dense;
  dense.q = inputs.q.view(q.data(), p.dtype);
  dense.k = inputs.k.view(k.data(), p.dtype);
  dense.v = inputs.v.view(v.data(), p.dtype);
  const Tensor near_out = device.allocate_tensor(p.dtype, dense.q.shape, MemoryUse::other);
  const Tensor gathered = device.allocate_tensor(p.dtype, dense.q.shape, MemoryUse::other);
  const Tensor near_lse = device.allocate_tensor(DType::f32, {p.batch, p.q_heads, p.q_len}, MemoryUse::other);
  const Tensor far_lse = device.allocate_tensor(DType::f32, {p.batch, p.q_heads, p.q_len}, MemoryUse::other);
  dense.out = near_out.view;
  dense.lse = near_lse.view;

  // Each tensor's own region of the distance between two steps: 2^18 elements are more than any needs.
  constexpr std::int64_t kRegion = 1 << 18;
  std::int64_t region = 0;
  const auto spread = [&](const TensorView& near) {
    TensorView view = near;
    view.data =
        static_cast<char*>(memory.data()) + region++ * kRegion * static_cast<std::int64_t>(size_of(p.dtype));
    const auto axis = static_cast<std::size_t>(apart == Apart::sequences ? 0
                                               : apart == Apart::tokens  ? 1
                                                                         : 2);
    const std::int64_t steps = apart == Apart::tokens ? p.kv_len - 1 : near.shape[static_cast<int>(axis)] - 1;
    const std::int64_t other = apart == Apart::heads ? near.shape[3] : near.shape[2] * near.shape[3];
    view.strides = {near.shape[1] * other, other, near.shape[3], 1};
    if (apart == Apart::tokens) view.strides[0] = other;
    view.strides[axis] = far_step(steps);
    return view;
  };
  AttentionTensors far;
  far.q = spread(dense.q);
  far.k = spread(dense.k);
  far.v = spread(dense.v);
  far.out = spread(dense.out);
  far.lse = far_lse.view;
  copy_rows(device, far.q, dense.q);
  copy_rows(device, far.k, dense.k);
  copy_rows(device, far.v, dense.v);
  poison(device, near_out.view.data, near_out.view.bytes());
  copy_rows(device, far.out, dense.out);

  const AttentionScratch need = backend.scratch(p);
  const Guarded scores(device, need.scores_bytes);
  const Guarded workspace(device, need.workspace_bytes);
  backend.forward(p, dense, scores.data(), workspace.data());
  backend.forward(p, far, scores.data(), workspace.data());
  copy_rows(device, gathered.view, far.out);
  if (mode == "baseline") {  // cuBLAS may choose by the strides
    Expected expected = expected_of(test, inputs, p.dtype, kept_scores(backend, p, p.dtype));
    AttentionResult result;
    const Placement place = out_placement(p);
    result.out.assign(static_cast<std::size_t>(place.elements), std::nanf(""));
    const std::vector<char> bits = bytes_of(device, gathered.view);
    convert_elements(bits.data(), p.dtype, result.out.data() + place.first, DType::f32,
                     static_cast<std::size_t>(gathered.view.shape.elements()));
    result.lse.resize(expected.lse.size());
    device.download(result.lse.data(), far_lse.view.data, far_lse.view.bytes());
    Failures failures;
    compare(test, result, expected, mode, failures);
    for (const std::string& line : failures) UNSCOPED_INFO(line);
    CHECK(failures.empty());
  } else {
    CHECK(bytes_of(device, gathered.view) == bytes_of(device, near_out.view));
    CHECK(bytes_of(device, far_lse.view) == bytes_of(device, near_lse.view));
  }
}

// Nothing where the GPU has no room.
Buffer far_memory(Device& device, DType dtype) {
  try {
    Buffer memory =
        device.allocate(((std::size_t{1} << 31) + (std::size_t{1} << 22)) * size_of(dtype), MemoryUse::other);
    poison(device, memory.data(), memory.bytes());
    return memory;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return {};
  }
}

}  // namespace

TEST_CASE("places past two thousand million elements are reached by every kernel") {
  ATTN_OPEN_GPU(platform);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Buffer memory = far_memory(*platform.device, dtype);
    if (memory.bytes() == 0) ATTN_SKIP("the GPU has not 9 GB to spare");
    for (const char* mode : {"reference", "baseline", "flash"}) {
      for (const int head_dim : {64, 80, 96, 128, 256}) {
        // The code of f16 is that of bf16, and in mode reference all head dimensions share theirs.
        if ((dtype == DType::f16 || mode == std::string("reference")) && head_dim != 80) continue;
        for (const int queries : {1, 70}) {
          check_far_apart(platform, mode, {3, queries, 150, 4, 2, head_dim, dtype, 0, true}, Apart::sequences,
                          memory);
          check_far_apart(platform, mode, {2, queries, 150, 3, 3, head_dim, dtype, 0, true}, Apart::heads,
                          memory);
          if (mode == std::string("baseline")) continue;  // cuBLAS's own, and no cache lies like that
          check_far_apart(platform, mode, {2, queries, 70, 4, 2, head_dim, dtype, 0, true}, Apart::tokens,
                          memory);
        }
      }
    }
  }
}
