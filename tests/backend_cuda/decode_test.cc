// Decode attention of mode flash on a GPU: a recorded step = the same step made anew, rotation and append on
// the way = done before, whatever lies beyond the keys, and nothing left over for the next call.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"
#include "tests/download_numbers.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

constexpr int kVocab = 8;
constexpr int kCapacity = 720;

struct Sizes {
  int batch, q_heads, kv_heads, head_dim, rotary_dims;
  DType dtype;
};

void fill_bytes(Device& device, const Buffer& buffer, std::uint16_t pattern) {
  std::vector<std::uint16_t> bits(buffer.bytes() / 2, pattern);
  device.upload(buffer.data(), bits.data(), buffer.bytes());
}

void upload_floats(Device& device, const TensorView& target, const std::vector<float>& values) {
  std::vector<char> bits(target.bytes());
  convert_elements(values.data(), DType::f32, bits.data(), target.dtype, values.size());
  device.upload(target.data, bits.data(), bits.size());
}

Tensor random_tensor(Device& device, DType dtype, const Shape& shape, std::uint64_t stream) {
  Tensor tensor = device.allocate_tensor(dtype, shape, MemoryUse::other);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(11, stream, i);
  upload_floats(device, tensor.view, values);
  return tensor;
}

std::vector<unsigned char> bytes_of(Device& device, const Buffer& buffer) {
  std::vector<unsigned char> out(buffer.bytes());
  device.download(out.data(), buffer.data(), out.size());
  return out;
}

// Keys and values as a model's cache lays them, poisoned throughout: a pattern of a 16-bit NaN or of the
// largest number.
struct Cache {
  Tensor k, v;  // memory [batch, kv_head, token, dim]
  Cache(Device& device, const Sizes& s, std::uint16_t poison)
      : k(device.allocate_tensor(s.dtype, {s.batch, kCapacity, s.kv_heads, s.head_dim}, MemoryUse::kv_cache)),
        v(device.allocate_tensor(s.dtype, {s.batch, kCapacity, s.kv_heads, s.head_dim},
                                 MemoryUse::kv_cache)) {
    for (Tensor* tensor : {&k, &v}) {
      fill_bytes(device, tensor->buffer, poison);
      const std::int64_t head = std::int64_t{kCapacity} * s.head_dim;
      tensor->view.strides = {head * s.kv_heads, s.head_dim, head, 1};
    }
  }
};

// Outputs of many steps, one after the other on the device.
struct History {
  Tensor out, lse;  // [step, ...]
  History(Device& device, const Sizes& s, int steps)
      : out(device.allocate_tensor(s.dtype, {steps, s.batch, s.q_heads, s.head_dim}, MemoryUse::other)),
        lse(device.allocate_tensor(DType::f32, {steps, s.batch, s.q_heads}, MemoryUse::other)) {
    fill_bytes(device, out.buffer, 0xffff);
    fill_bytes(device, lse.buffer, 0xffff);
  }
  TensorView out_at(const Sizes& s, int step) const {
    const TensorView one = out.view.slice(0, step, 1);
    return {one.data, s.dtype, {s.batch, 1, s.q_heads, s.head_dim}};
  }
  TensorView lse_at(const Sizes& s, int step) const {
    return {lse.view.slice(0, step, 1).data, DType::f32, {s.batch, s.q_heads, 1}};
  }
};

// The first step at which two histories differ, or -1.
int first_difference(Device& device, const History& a, const History& b, int steps) {
  int first = steps;
  for (const auto& [x, y] : {std::pair(&a.out, &b.out), std::pair(&a.lse, &b.lse)}) {
    const auto left = bytes_of(device, x->buffer);
    const auto right = bytes_of(device, y->buffer);
    const std::size_t size = left.size() / static_cast<std::size_t>(steps);
    for (int step = 0; step < first; ++step) {
      const std::size_t at = static_cast<std::size_t>(step) * size;
      if (std::memcmp(left.data() + at, right.data() + at, size) != 0) first = step;
    }
  }
  return first == steps ? -1 : first;
}

double relative_error(const std::vector<float>& ours, const std::vector<float>& truth) {
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    squares += difference * difference;
    size += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return std::sqrt(squares / size);
}

AttentionProblem problem_of(const Sizes& s, int keys) {
  AttentionProblem p{s.batch, 1, keys, s.q_heads, s.kv_heads, s.head_dim, s.dtype, 0, true};
  p.scale = 1.0F / std::sqrt(static_cast<float>(s.head_dim));
  return p;
}

// A decode step that ends with attention, with all that it needs: an embedding stands for the projections
// that give queries, keys and values.
class Decoder {
 public:
  Decoder(Platform& gpu, const Sizes& s, std::uint16_t poison)
      : gpu_(gpu),
        s_(s),
        flash_(gpu.backend("flash")),
        fused(*gpu.device, s, poison),
        plain(*gpu.device, s, poison) {
    Device& device = *gpu.device;
    const std::int64_t heads = s.q_heads + 2 * s.kv_heads;
    table_ = random_tensor(device, s.dtype, {kVocab, heads * s.head_dim}, 1);
    fused_qkv_ = device.allocate_tensor(s.dtype, {s.batch, 1, heads, s.head_dim}, MemoryUse::other);
    plain_qkv_ = device.allocate_tensor(s.dtype, {s.batch, 1, heads, s.head_dim}, MemoryUse::other);
    fused_out_ = device.allocate_tensor(s.dtype, {s.batch, 1, s.q_heads, s.head_dim}, MemoryUse::other);
    plain_out_ = device.allocate_tensor(s.dtype, {s.batch, 1, s.q_heads, s.head_dim}, MemoryUse::other);
    fused_lse_ = device.allocate_tensor(DType::f32, {s.batch, s.q_heads, 1}, MemoryUse::other);
    plain_lse_ = device.allocate_tensor(DType::f32, {s.batch, s.q_heads, 1}, MemoryUse::other);
    ids_ = device.allocate_tensor(DType::i32, {s.batch, 1}, MemoryUse::other);
    all_ids_ = device.allocate_tensor(DType::i32, {kCapacity, s.batch}, MemoryUse::other);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(kCapacity) * s.batch);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random_bits(5, 0, i) % kVocab);
    device.upload(all_ids_.view.data, ids.data(), all_ids_.view.bytes());
    past_ = device.allocate(sizeof(std::int32_t), MemoryUse::other);
    device.fill_zero(past_.data(), past_.bytes());
    workspace_ = device.allocate(flash_.scratch(problem_of(s, kCapacity)).workspace_bytes, MemoryUse::other);
    rotary_.rotary_dims = s.rotary_dims;
    if (s.rotary_dims == 0) return;
    const int half = s.rotary_dims / 2;
    std::vector<float> cosines;
    std::vector<float> sines;
    for (int position = 0; position < kCapacity; ++position) {
      for (int i = 0; i < half; ++i) {
        const double angle = position * std::pow(10000.0, -static_cast<double>(i) / half);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    cos_ = device.allocate_tensor(DType::f32, {kCapacity, half}, MemoryUse::other);
    sin_ = device.allocate_tensor(DType::f32, {kCapacity, half}, MemoryUse::other);
    upload_floats(device, cos_.view, cosines);
    upload_floats(device, sin_.view, sines);
    rotary_.cos = cos_.view;
    rotary_.sin = sin_.view;
  }

  // Rotation and append inside attention.
  void fused_step() {
    embed(fused_qkv_);
    const TensorView& qkv = fused_qkv_.view;
    const AttentionAppend append{qkv.slice(2, s_.q_heads, s_.kv_heads),
                                 qkv.slice(2, s_.q_heads + s_.kv_heads, s_.kv_heads), rotary_};
    AttentionTensors tensors{qkv.slice(2, 0, s_.q_heads), fused.k.view, fused.v.view, fused_out_.view,
                             fused_lse_.view};
    tensors.past_len = past();
    tensors.append = &append;
    flash_.forward(problem_of(s_, kCapacity), tensors, nullptr, workspace_.data());
  }
  // Before it, and the length from the device.
  void plain_step() {
    embed(plain_qkv_);
    gpu_.ops->rope_and_append(plain_qkv_.view, rotary_, past(), plain.k.view, plain.v.view);
    AttentionTensors tensors{plain_qkv_.view.slice(2, 0, s_.q_heads), plain.k.view, plain.v.view,
                             plain_out_.view, plain_lse_.view};
    tensors.past_len = past();
    flash_.forward(problem_of(s_, kCapacity), tensors, nullptr, workspace_.data());
  }
  // After a plain step: attention over `keys` keys, as a call that knows the number.
  void attend(AttentionBackend& backend, int keys, const TensorView& out, const TensorView& lse) {
    const AttentionTensors tensors{plain_qkv_.view.slice(2, 0, s_.q_heads), plain.k.view.slice(1, 0, keys),
                                   plain.v.view.slice(1, 0, keys), out, lse};
    backend.forward(problem_of(s_, keys), tensors, nullptr, workspace_.data());
  }

  void choose_ids(int step) {
    gpu_.device->copy(ids_.view.data, all_ids_.view.slice(0, step, 1).data, ids_.view.bytes());
  }
  void advance() { gpu_.ops->advance(static_cast<std::int32_t*>(past_.data()), 1); }
  // What the last steps gave becomes entry `step`, and their outputs poison.
  void keep(const History& history, int step, bool of_fused, const Buffer& poison) {
    Device& device = *gpu_.device;
    const Tensor& out = of_fused ? fused_out_ : plain_out_;
    const Tensor& lse = of_fused ? fused_lse_ : plain_lse_;
    device.copy(history.out_at(s_, step).data, out.view.data, out.view.bytes());
    device.copy(history.lse_at(s_, step).data, lse.view.data, lse.view.bytes());
    device.copy(out.view.data, poison.data(), out.view.bytes());
    device.copy(lse.view.data, poison.data(), lse.view.bytes());
  }
  std::size_t poison_bytes() const { return std::max(fused_out_.view.bytes(), fused_lse_.view.bytes()); }
  AttentionBackend& flash() { return flash_; }

 private:
  const std::int32_t* past() const { return static_cast<const std::int32_t*>(past_.data()); }
  void embed(const Tensor& qkv) {
    gpu_.ops->embed({table_.view, {}}, ids_.view, past(),
                    qkv.view.reshaped({s_.batch, 1, table_.view.extent(1)}));
  }

  Platform& gpu_;
  Sizes s_;
  AttentionBackend& flash_;
  Tensor table_, fused_qkv_, plain_qkv_, fused_out_, plain_out_, fused_lse_, plain_lse_, ids_, all_ids_, cos_,
      sin_;
  Buffer past_, workspace_;
  RotaryTable rotary_;

 public:
  Cache fused, plain;
};

// Of the cache's rows at `steps` and beyond, in every head.
bool poisoned_beyond(Device& device, const Sizes& s, const Tensor& cache, int steps, std::uint16_t poison) {
  std::vector<std::uint16_t> bits(cache.buffer.bytes() / 2);
  device.download(bits.data(), cache.buffer.data(), cache.buffer.bytes());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto token = static_cast<int>(i / static_cast<std::size_t>(s.head_dim) % kCapacity);
    if (token >= steps && bits[i] != poison) return false;
  }
  return true;
}

void check_growing(Platform& gpu, const Sizes& s, int steps, std::uint16_t poison) {
  CAPTURE(kDTypeNames.name(s.dtype), s.batch, s.q_heads, s.kv_heads, s.head_dim, s.rotary_dims);
  Device& device = *gpu.device;
  Decoder decoder(gpu, s, poison);
  REQUIRE(decoder.flash().appends(problem_of(s, kCapacity)));
  const History fused(device, s, steps);
  const History recorded(device, s, steps);
  const History eager(device, s, steps);
  const Buffer nan = device.allocate(decoder.poison_bytes(), MemoryUse::other);
  fill_bytes(device, nan, 0xffff);
  const Tensor truth = device.allocate_tensor(s.dtype, {s.batch, 1, s.q_heads, s.head_dim}, MemoryUse::other);
  const Tensor truth_lse = device.allocate_tensor(DType::f32, {s.batch, s.q_heads, 1}, MemoryUse::other);
  const auto fused_graph = device.capture([&] { decoder.fused_step(); });
  const auto plain_graph = device.capture([&] { decoder.plain_step(); });
  const double unit = s.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (int step = 0; step < steps; ++step) {
    decoder.choose_ids(step);
    fused_graph->replay();
    decoder.keep(fused, step, true, nan);
    plain_graph->replay();
    decoder.keep(recorded, step, false, nan);
    decoder.attend(decoder.flash(), step + 1, eager.out_at(s, step), eager.lse_at(s, step));
    decoder.advance();
    if (step < 2 || step % 211 == 0 || step == steps - 1) {
      CAPTURE(step);
      decoder.attend(gpu.backend("reference"), step + 1, truth.view, truth_lse.view);
      CHECK(relative_error(numbers(device, eager.out_at(s, step)), numbers(device, truth.view)) < 2 * unit);
      CHECK(relative_error(numbers(device, eager.lse_at(s, step)), numbers(device, truth_lse.view)) < 1e-5);
    }
  }
  CHECK(first_difference(device, recorded, eager, steps) == -1);
  CHECK(first_difference(device, fused, eager, steps) == -1);
  const auto lse = numbers(device, fused.lse.view);
  CHECK(std::all_of(lse.begin(), lse.end(), [](float x) { return std::isfinite(x); }));
  CHECK(bytes_of(device, decoder.fused.k.buffer) == bytes_of(device, decoder.plain.k.buffer));
  CHECK(bytes_of(device, decoder.fused.v.buffer) == bytes_of(device, decoder.plain.v.buffer));
  CHECK(poisoned_beyond(device, s, decoder.fused.k, steps, poison));
  CHECK(poisoned_beyond(device, s, decoder.fused.v, steps, poison));
}

std::uint16_t largest(DType dtype) { return dtype == DType::f16 ? 0x7bff : 0x7f7f; }

}  // namespace

TEST_CASE("a recorded decode step with its append gives the bits of a call made anew at every length") {
  ATTN_OPEN_GPU(gpu);
  struct Heads {
    int q, kv;
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [head_dim, rotary_dims] :
         {std::pair(64, 16), std::pair(80, 20), std::pair(96, 0), std::pair(128, 128), std::pair(256, 64)}) {
      for (const Heads heads : {Heads{32, 32}, Heads{32, 8}, Heads{8, 1}, Heads{6, 2}}) {
        check_growing(gpu, {1, heads.q, heads.kv, head_dim, rotary_dims, dtype}, 700, 0xffff);
        check_growing(gpu, {3, heads.q, heads.kv, head_dim, rotary_dims, dtype}, 150, largest(dtype));
      }
    }
    check_growing(gpu, {1, 20, 1, 80, 18, dtype}, 300, 0xffff);   // pairs at odd places, rows in three blocks
    check_growing(gpu, {2, 18, 2, 128, 96, dtype}, 300, 0xffff);  // rows in two blocks
  }
}

TEST_CASE("a thousand decode calls between others of another size give the same bits") {
  ATTN_OPEN_GPU(gpu);
  constexpr int kRepeats = 1000;
  const Sizes one{1, 32, 8, 128, 0, DType::bf16};
  const Sizes other{2, 12, 12, 128, 0, DType::bf16};
  Device& device = *gpu.device;
  AttentionBackend& flash = gpu.backend("flash");
  const auto run = [&](const Sizes& s, int keys, const auto& tensors, const History& history, int step,
                       const Buffer& workspace) {
    flash.forward(
        problem_of(s, keys),
        {tensors[0].view, tensors[1].view, tensors[2].view, history.out_at(s, step), history.lse_at(s, step)},
        nullptr, workspace.data());
  };
  const auto inputs = [&](const Sizes& s, int keys) {
    std::vector<Tensor> out;
    out.push_back(random_tensor(device, s.dtype, {s.batch, 1, s.q_heads, s.head_dim}, 1));
    out.push_back(random_tensor(device, s.dtype, {s.batch, keys, s.kv_heads, s.head_dim}, 2));
    out.push_back(random_tensor(device, s.dtype, {s.batch, keys, s.kv_heads, s.head_dim}, 3));
    return out;
  };
  const auto one_inputs = inputs(one, 1777);
  const auto other_inputs = inputs(other, 333);
  const History one_history(device, one, kRepeats);
  const History other_history(device, other, kRepeats);
  // Shared: what a call leaves there must not matter to the next.
  const Buffer workspace = device.allocate(std::max(flash.scratch(problem_of(one, 1777)).workspace_bytes,
                                                    flash.scratch(problem_of(other, 333)).workspace_bytes),
                                           MemoryUse::workspace);
  fill_bytes(device, workspace, 0xffff);
  for (int step = 0; step < kRepeats; ++step) {
    run(one, 1777, one_inputs, one_history, step, workspace);
    run(other, 333, other_inputs, other_history, step, workspace);
  }
  for (const History* history : {&one_history, &other_history}) {
    for (const Tensor* tensor : {&history->out, &history->lse}) {
      const auto bits = bytes_of(device, tensor->buffer);
      const std::size_t size = bits.size() / kRepeats;
      bool same = true;
      for (std::size_t step = 1; step < kRepeats; ++step)
        same = same && std::memcmp(bits.data(), bits.data() + step * size, size) == 0;
      CHECK(same);
      const auto values = numbers(device, tensor->view);
      CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }));
    }
  }
}

TEST_CASE("an append that no kernel can do is refused") {
  ATTN_OPEN_GPU(gpu);
  AttentionBackend& flash = gpu.backend("flash");
  AttentionProblem p = problem_of({1, 4, 4, 80, 20, DType::bf16}, 100);
  CHECK(flash.appends(p));
  p.q_len = 2;
  CHECK_FALSE(flash.appends(p));
  p.q_len = 1;
  p.dtype = DType::f32;
  CHECK_FALSE(flash.appends(p));
  CHECK_FALSE(gpu.backend("reference").appends(problem_of({1, 4, 4, 80, 20, DType::bf16}, 100)));
}
