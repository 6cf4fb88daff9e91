// HealthAttention: any attention backend, with a look at the numbers that go in and come out of each layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/backend/attention.h"
#include "lib/backend/device.h"
#include "lib/core/enum_names.h"

namespace attn {

inline constexpr double kLargestF16 = 65504;

// score: a product of query and key that f32 cannot hold. output: the sum of values that attention gives.
enum class HealthStage : unsigned char { query, key, value, score, output };
inline constexpr auto kHealthStageNames =
    name_table<HealthStage>({{HealthStage::query, "query"},
                             {HealthStage::key, "key"},
                             {HealthStage::value, "value"},
                             {HealthStage::score, "score"},
                             {HealthStage::output, "attention output"}});

struct NonFiniteValue {
  std::int64_t pass = 0;  // forward passes completed before this one
  int layer = 0, sequence = 0;
  HealthStage stage = HealthStage::query;
  int head = 0;               // a key head for keys and values
  std::int64_t position = 0;  // of the token in its window
  std::string text() const;
};

// A largest value may be 0 where nothing finite was seen.
struct LayerHealth {
  double largest_score = 0;    // |q k^T * scale| over all visible pairs
  double largest_product = 0;  // the same without the scale
  int head = 0;                // query head, query and key of the largest score
  std::int64_t query = 0, key = 0;
  double largest_value = 0;  // of |q|, |k|, |v| and the output

  // How many times larger the scores could be before f16 overflows; nothing where all are 0.
  std::optional<double> f16_headroom() const;
  // Whether f16 would make an infinity of it: 65520 is the first that rounds past the largest f16.
  bool scores_overflow_f16() const;    // of scaled scores, as a baseline in f16 keeps them
  bool products_overflow_f16() const;  // of products that are scaled only afterwards
  bool values_overflow_f16() const;    // of queries, keys, values or outputs
};

// Wraps a backend and gives it every call unchanged, so that results are the same bit by bit. Before each
// call the queries, keys and values are copied to the host and their visible products formed in f64 (pairs
// whose norms show that they are no new maximum are left out, which loses nothing); afterwards the output is
// looked at. Much slower than attention itself: a diagnosis, not a measurement. The host holds one call's q,
// k, v and output in f32, never a score matrix.
//
// Layers are told apart by the order of calls: one object serves one transformer. Recorded calls (past_len
// given) are refused with Error{unsupported}: nothing can be copied while work is recorded.
class HealthAttention : public AttentionBackend {
 public:
  HealthAttention(AttentionBackend& inner, Device& device, int layers);

  std::string_view name() const override { return inner_.name(); }
  std::vector<KernelRow> kernels() const override { return inner_.kernels(); }
  std::optional<std::string> why_not(const AttentionProblem& problem) const override {
    return inner_.why_not(problem);
  }
  std::string kernel_for(const AttentionProblem& problem) const override {
    return inner_.kernel_for(problem);
  }
  AttentionScratch scratch(const AttentionProblem& problem) const override { return inner_.scratch(problem); }
  int recorded_keys(int kv_len, int capacity) const override {
    return inner_.recorded_keys(kv_len, capacity);
  }
  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
               void* workspace) override;

  const std::vector<LayerHealth>& layers() const { return layers_; }
  // The first in order of calls; within a call queries, keys and values before the score and the output, and
  // there the earliest position, then query before key before value, then the lowest head.
  const std::optional<NonFiniteValue>& first_nonfinite() const { return first_nonfinite_; }
  std::int64_t passes() const { return calls_ / static_cast<std::int64_t>(layers_.size()); }
  // The next call is of layer 0: needed only where a forward pass broke off with an error.
  void restart() { calls_ = passes() * static_cast<std::int64_t>(layers_.size()); }

 private:
  AttentionBackend& inner_;
  Device& device_;
  std::vector<LayerHealth> layers_;
  std::optional<NonFiniteValue> first_nonfinite_;
  std::int64_t calls_ = 0;
};

}  // namespace attn
