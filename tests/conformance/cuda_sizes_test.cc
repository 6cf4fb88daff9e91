// Class 7 of kernels/README.md. Places beyond 2^31 elements: views whose sequences, heads or tokens lie
// gigabytes apart give the bits of dense ones.
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"
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

// A decode step whose cache has its sequences gigabytes apart: the row at *past_len of each, and no other, is
// written, by the operation of its own and by the kernel that appends on the way.
void check_far_append(Platform& platform, DType dtype, int head_dim, const Buffer& memory) {
  CAPTURE(kDTypeNames.name(dtype), head_dim);
  constexpr int kBatch = 3, kQueryHeads = 4, kKeyHeads = 2, kCapacity = 120;
  constexpr std::int32_t kPast = 100;
  constexpr std::int64_t kRegion = 1 << 18;
  Device& device = *platform.device;
  AttentionProblem p{kBatch, 1, kCapacity, kQueryHeads, kKeyHeads, head_dim, dtype, 0.1F, true};
  Case test{"append", p, Layout::dense, Fill::normal};
  const Inputs inputs = make_inputs(test, dtype);
  const Uploaded k(device, inputs.k_data, dtype);
  const Uploaded v(device, inputs.v_data, dtype);
  test.problem = {kBatch, 1, 1, kQueryHeads + kKeyHeads, kKeyHeads, head_dim, dtype, 0.1F, true};
  test.layout = Layout::fused;  // its q, k, v together are the step's queries, keys and values
  test.problem.q_heads = kQueryHeads;
  const Inputs fresh = make_inputs(test, dtype);
  const std::int32_t past = kPast;
  const Buffer length = device.allocate(sizeof past, MemoryUse::other);
  device.upload(length.data(), &past, sizeof past);
  const auto* past_len = static_cast<const std::int32_t*>(length.data());

  const auto cache = [&](std::int64_t region, std::int64_t batch_step) {
    TensorView view(
        static_cast<char*>(memory.data()) + region * kRegion * static_cast<std::int64_t>(size_of(dtype)),
        dtype, {kBatch, kCapacity, kKeyHeads, head_dim});
    view.strides = {batch_step, head_dim, std::int64_t{kCapacity} * head_dim, 1};
    return view;
  };
  struct Outcome {
    std::vector<char> keys, values, out;
  };
  const auto step = [&](std::int64_t batch_step, bool on_the_way) {
    // Near caches lie in regions of their own, far ones share a region's distance.
    const TensorView keys = cache(0, batch_step);
    const TensorView values = cache(batch_step < kRegion ? 3 : 1, batch_step);
    copy_rows(device, keys, inputs.k.view(k.data(), dtype));
    copy_rows(device, values, inputs.v.view(v.data(), dtype));
    const Uploaded qkv(device, fresh.q_data, dtype);
    const TensorView all = [&] {
      Placement whole = fresh.q;
      whole.shape[2] = kQueryHeads + 2 * kKeyHeads;
      return whole.view(qkv.data(), dtype);
    }();
    const Tensor out = device.allocate_tensor(dtype, {kBatch, 1, kQueryHeads, head_dim}, MemoryUse::other);
    AttentionBackend& flash = platform.backend("flash");
    const Guarded workspace(device, flash.scratch(p).workspace_bytes);
    const RotaryTable none{};
    AttentionTensors tensors;
    tensors.q = all.slice(2, 0, kQueryHeads);
    tensors.k = keys;
    tensors.v = values;
    tensors.out = out.view;
    tensors.past_len = past_len;
    const AttentionAppend append{all.slice(2, kQueryHeads, kKeyHeads),
                                 all.slice(2, kQueryHeads + kKeyHeads, kKeyHeads), none};
    if (on_the_way) {
      REQUIRE(flash.appends(p));
      tensors.append = &append;
    } else {
      platform.ops->rope_and_append(all, none, past_len, keys, values);
    }
    flash.forward(p, tensors, nullptr, workspace.data());
    const Tensor gathered = device.allocate_tensor(dtype, keys.shape, MemoryUse::other);
    Outcome outcome;
    copy_rows(device, gathered.view, keys);
    outcome.keys = bytes_of(device, gathered.view);
    copy_rows(device, gathered.view, values);
    outcome.values = bytes_of(device, gathered.view);
    outcome.out = bytes_of(device, out.view);
    return outcome;
  };
  const Outcome near = step(std::int64_t{kKeyHeads} * kCapacity * head_dim, false);
  const Outcome far = step(far_step(kBatch - 1), false);
  const Outcome fused = step(far_step(kBatch - 1), true);
  for (const Outcome* other : {&far, &fused}) {
    CHECK(other->keys == near.keys);
    CHECK(other->values == near.values);
    CHECK(other->out == near.out);
  }
  // Dense [batch, token, head, dim]: outside token kPast nothing has changed, there everything has.
  const auto row = static_cast<std::size_t>(kKeyHeads) * head_dim * size_of(dtype);
  const std::vector<char> before = [&] {
    const Tensor gathered =
        device.allocate_tensor(dtype, {kBatch, kCapacity, kKeyHeads, head_dim}, MemoryUse::other);
    copy_rows(device, gathered.view, inputs.k.view(k.data(), dtype));
    return bytes_of(device, gathered.view);
  }();
  for (std::size_t n = 0; n < std::size_t{kBatch} * kCapacity; ++n) {
    const bool same = std::memcmp(&before[n * row], &far.keys[n * row], row) == 0;
    REQUIRE(same == (n % kCapacity != kPast));
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

TEST_CASE("a cache of more than four gigabytes is appended to in the row of each sequence") {
  ATTN_OPEN_GPU(platform);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Buffer memory = far_memory(*platform.device, dtype);
    if (memory.bytes() == 0) ATTN_SKIP("the GPU has not 5 GB to spare");
    for (const int head_dim : {64, 80, 96, 128, 256}) check_far_append(platform, dtype, head_dim, memory);
  }
}
