// Recorded decode steps: replays give what the same steps give made anew, at every length, again and again,
// and whatever lies in scratch. Class 15 of kernels/README.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "tests/catch.h"
#include "tests/rounding.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

bool on_gpu(const Platform& platform) { return !platform.device->host_memory(); }

// Head dimension 64, so that a GPU's decode kernel with the append inside runs in 16 bits.
Model grouped_model(Platform& platform, Family family, DType dtype) {
  Model model;
  ModelConfig& config = model.config;
  config = tiny_config(family);
  config.head_dim = 64;
  config.hidden = 128;
  config.ffn_hidden = 160;
  config.max_positions = 4096;
  config.rope.rotary_dims = family == Family::gpt2 ? 0 : family == Family::gpt_neox ? 16 : 64;
  model.weights = allocate_weights(*platform.device, config, dtype);
  std::uint64_t stream = 0;
  for (const Buffer& buffer : model.weights.storage) {
    std::vector<float> values(buffer.bytes() / size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.12F * random_normal(17, stream, i);
    std::vector<char> bits(buffer.bytes());
    convert_elements(values.data(), DType::f32, bits.data(), dtype, values.size());
    platform.device->upload(buffer.data(), bits.data(), bits.size());
    ++stream;
  }
  return model;
}

// Leaves NaN in the memory that the next allocations get.
void poison_free_memory(Device& device) {
  const std::size_t bytes_in_all = std::size_t{device.host_memory() ? 1U : 64U} << 20;
  const std::vector<unsigned char> nan(bytes_in_all, 0xff);
  const Buffer whole = device.allocate(bytes_in_all, MemoryUse::other);
  device.upload(whole.data(), nan.data(), bytes_in_all);
  std::vector<Buffer> pieces;
  for (std::size_t bytes = 256; bytes <= std::size_t{1} << 20; bytes *= 2) {
    for (int n = 0; n < 3; ++n) {
      pieces.push_back(device.allocate(bytes, MemoryUse::other));
      device.upload(pieces.back().data(), nan.data(), bytes);
    }
  }
  device.synchronize();
}

struct Step {
  std::vector<TokenId> ids;   // [batch], picked after the step
  std::vector<float> logits;  // [batch, vocab]
};

// One sequence of decode steps after a prompt, eager or from recordings.
class Steps {
 public:
  Steps(Platform& platform, const Model& model, AttentionBackend& attention, int batch, int capacity,
        bool recorded)
      : device_(*platform.device),
        attention_(attention),
        transformer_(platform, model, {batch, capacity, kPrompt, batch}) {
    transformer_.reserve(attention, {kPrompt, kPrompt});
    for (int keys = 1; keys <= capacity; ++keys) transformer_.reserve(attention, {1, keys});
    if (!recorded) return;
    for (int keys = kPrompt + 1; keys <= capacity; keys = lasts_.back() + 1) {
      lasts_.push_back(attention.recorded_keys(keys, capacity));
      graphs_.push_back(device_.capture([this, last = lasts_.back()] {
        pick_after(transformer_.record(transformer_.next_ids(), attention_, last));
      }));
    }
  }

  Step begin(const std::vector<TokenId>& prompts) {
    transformer_.clear();
    pick_after(transformer_.forward(transformer_.upload_ids(prompts), attention_));
    return look();
  }

  // Feeds the ids that were picked last.
  void go() {
    if (graphs_.empty()) {
      pick_after(transformer_.forward(transformer_.next_ids(), attention_));
      return;
    }
    const auto range =
        std::lower_bound(lasts_.begin(), lasts_.end(), transformer_.length() + 1) - lasts_.begin();
    graphs_[static_cast<std::size_t>(range)]->replay();
    transformer_.replayed(1);
  }

  Step look() {
    Step step;
    const TensorView& next = transformer_.next_ids();
    step.ids.resize(static_cast<std::size_t>(next.shape.elements()));
    device_.download(step.ids.data(), next.data, next.bytes());
    const TensorView& logits = transformer_.logits_room();
    step.logits.resize(static_cast<std::size_t>(logits.shape.elements()));
    device_.download(step.logits.data(), logits.data, logits.bytes());
    return step;
  }

  void feed_instead(const std::vector<TokenId>& ids) {
    device_.upload(transformer_.next_ids().data, ids.data(), transformer_.next_ids().bytes());
  }

  static constexpr int kPrompt = 5;

 private:
  void pick_after(const TensorView& hidden) {
    const TensorView logits = transformer_.logits(transformer_.last_rows(hidden));
    const TensorView& next = transformer_.next_ids();
    transformer_.platform().ops->pick_token(logits, {}, transformer_.past_len(),
                                            next.reshaped({next.extent(0)}));
  }

  Device& device_;
  AttentionBackend& attention_;
  Transformer transformer_;
  std::vector<int> lasts_;  // the largest length that each graph serves
  std::vector<std::unique_ptr<Graph>> graphs_;
};

std::vector<TokenId> prompts(int batch) {
  std::vector<TokenId> all;
  for (int row = 0; row < batch; ++row) {
    const auto one = random_prompt(61, Steps::kPrompt, 5, static_cast<std::uint64_t>(row));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

bool same_bits(const Step& a, const Step& b) {
  return a.ids == b.ids && a.logits.size() == b.logits.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = difference <= worst ? worst : difference;  // NaN is kept
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return worst / scale;
}

void check_growing(Platform& platform, Family family, const std::string& mode, DType dtype, int batch,
                   int capacity) {
  CAPTURE(kFamilyNames.name(family), mode, kDTypeNames.name(dtype), batch, capacity);
  const Model model = grouped_model(platform, family, dtype);
  AttentionBackend& attention = platform.backend(mode);
  poison_free_memory(*platform.device);
  Steps eager(platform, model, attention, batch, capacity, false);
  Steps recorded(platform, model, attention, batch, capacity, true);
  // A recording of mode baseline is made for the end of a range of lengths, where cuBLAS may choose other
  // kernels than for the length itself: there the numbers agree, not the bits. The CPU's products also go by
  // the size.
  const bool bitwise = mode != "baseline";
  const double tolerance = logit_tolerance(dtype, model.config.layers);
  int compared = 0;
  Step anew = eager.begin(prompts(batch));
  Step again = recorded.begin(prompts(batch));
  for (int length = Steps::kPrompt;; ++length) {
    ++compared;
    const bool equal = bitwise || length == Steps::kPrompt
                           ? same_bits(anew, again)
                           : relative_difference(again.logits, anew.logits) < tolerance;
    if (!equal) {
      CAPTURE(length, relative_difference(again.logits, anew.logits), anew.ids, again.ids);
      CHECK(equal);
      return;
    }
    if (length == capacity) break;
    recorded.feed_instead(anew.ids);
    eager.go();
    recorded.go();
    anew = eager.look();
    again = recorded.look();
  }
  CHECK(compared == capacity - Steps::kPrompt + 1);
}

// All steps in a row, as a program gives them; looked at once, at the end.
Step run_through(Steps& steps, int batch, int count) {
  steps.begin(prompts(batch));
  for (int n = 0; n < count; ++n) steps.go();
  return steps.look();
}

std::vector<DType> dtypes_of(const Platform& platform) {
  if (!on_gpu(platform)) return {DType::f32};
  return {DType::f32, DType::f16, DType::bf16};
}

}  // namespace

TEST_CASE("replays give what steps made anew give while the length grows to the capacity") {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    for (const std::string mode : {"baseline", "flash"}) {
      for (const Family family : kFamilies) {
        check_growing(platform, family, mode, dtype, 1, 90);
        check_growing(platform, family, mode, dtype, 3, 90);
      }
    }
  }
}

// For compute-sanitizer, which is 10 to 100 times slower: every operation of a decode step a few times.
TEST_CASE("a few replays of every family give what steps made anew give") {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    for (const Family family : kFamilies) check_growing(platform, family, "flash", dtype, 3, 9);
    check_growing(platform, Family::gpt_neox, "baseline", dtype, 1, 9);
  }
}

TEST_CASE("replays cross every border of splits and of recordings") {
  Platform platform = open_platform(test_device());
  // On a GPU 32 splits of 64 keys are full at 2048, and beyond the splits grow; on the CPU chunks have 512
  // keys.
  const int capacity = on_gpu(platform) ? 2300 : 1100;
  for (const DType dtype : dtypes_of(platform)) {
    check_growing(platform, Family::llama, "flash", dtype, 1, capacity);
    if (!on_gpu(platform)) continue;
    check_growing(platform, Family::llama, "flash", dtype, 3, capacity);
    check_growing(platform, Family::gpt_neox, "flash", dtype, 1, capacity);
    check_growing(platform, Family::gpt_neox, "baseline", dtype, 1, 600);
    check_growing(platform, Family::llama, "baseline", dtype, 3, 600);
  }
}

TEST_CASE("replays give the same bits three times and after a run that was given up") {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    for (const std::string mode : {"baseline", "flash"}) {
      for (const int batch : {1, 3}) {
        CAPTURE(mode, kDTypeNames.name(dtype), batch);
        const Model model = grouped_model(platform, Family::gpt_neox, dtype);
        poison_free_memory(*platform.device);
        Steps steps(platform, model, platform.backend(mode), batch, 400, true);
        const int count = on_gpu(platform) ? 390 : 60;
        const Step first = run_through(steps, batch, count);
        for (const float logit : first.logits) REQUIRE(std::isfinite(logit));
        CHECK(same_bits(run_through(steps, batch, count), first));
        CHECK(same_bits(run_through(steps, batch, count), first));
        steps.begin(prompts(batch));
        for (int n = 0; n < 37; ++n) steps.go();  // and nobody waits for them
        CHECK(same_bits(run_through(steps, batch, count), first));
        // The same from the beginning, in other memory.
        Steps others(platform, model, platform.backend(mode), batch, 400, true);
        CHECK(same_bits(run_through(others, batch, count), first));
      }
    }
  }
}
