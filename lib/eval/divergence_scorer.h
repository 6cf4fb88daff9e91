// DivergenceScorer: the same windows through several variants of a computation, compared row by row in one
// pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/eval/final_states.h"
#include "lib/eval/position_buckets.h"
#include "lib/model/transformer.h"

namespace attn {

// One way to compute logits. Variants may share a transformer; one of other weights or another type (the f32
// reference of a 16-bit run) has its own, of the same vocabulary. Batch 1; a capacity of the longest window,
// and for prefill a step of that too.
struct ScoredVariant {
  Transformer* transformer = nullptr;
  AttentionBackend* attention = nullptr;
  ForwardPath path = ForwardPath::prefill;
};

// Places in the list of variants: q of `other` against p of `base`.
struct VariantPair {
  std::size_t base = 0, other = 0;
};

struct NonFiniteLogit {
  std::size_t variant = 0;
  std::int64_t row = 0;    // of the window, from 0
  std::int64_t place = 0;  // of the vocabulary
};

// On the device each variant's final hidden states of one window are kept, [longest, hidden]. On the host
// stand blocks of at most logits_rows rows [variant, row, vocab] f32: memory grows neither with the text nor
// with vocabulary times context. Rows of a block are compared in parallel and added in order, so that the
// figures do not depend on the number of threads.
class DivergenceScorer {
 public:
  // `longest`: tokens fed in the longest window. Every variant must be in a pair. Throws Error{internal} for
  // pairs and transformers that do not fit together.
  DivergenceScorer(std::vector<ScoredVariant> variants, std::vector<VariantPair> pairs, std::int64_t longest,
                   std::int64_t error_block_tokens = kErrorBlockTokens);

  // Feeds a window to every variant. Row first_row + i predicts targets[i]. Stops at the first row with a
  // logit that is not finite: what was before it has been added, and it should be the last window. Throws
  // what Transformer::reserve throws.
  std::optional<NonFiniteLogit> add(std::span<const TokenId> fed, std::int64_t first_row,
                                    std::span<const TokenId> targets);

  const BucketedDivergence& divergence(std::size_t pair) const { return divergences_[pair]; }
  // Losses of the last window's targets, nats; NaN from a row with a logit that is not finite on.
  std::span<const double> losses(std::size_t variant) const { return losses_[variant]; }

  // Device memory (activations) that a scorer of these variants takes beside the transformers'.
  static std::size_t state_bytes(std::span<const ScoredVariant> variants, std::int64_t longest);

 private:
  void fetch_logits(std::int64_t first_row, std::int64_t rows);
  std::span<const float> row_of(std::size_t variant, std::int64_t row) const;

  std::vector<ScoredVariant> variants_;
  std::vector<VariantPair> pairs_;
  std::int64_t block_, vocab_;
  std::vector<Tensor> states_;              // [variant]: [longest, hidden]
  std::vector<std::vector<float>> logits_;  // [variant]: [block, vocab]
  std::vector<std::vector<double>> losses_;
  std::vector<RowDivergence> compared_;  // [row of the block, pair]
  std::vector<BucketedDivergence> divergences_;
};

}  // namespace attn
