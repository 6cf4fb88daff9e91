// Divergence: how far two computations of the same logits are apart, in double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lib/backend/logit_comparison.h"
#include "lib/eval/paired_ratio.h"
#include "lib/eval/quantile_sketch.h"
#include "lib/text/token.h"

namespace attn {

// Of the token that really follows.
struct TargetDivergence {
  double base_loss = 0, other_loss = 0;  // -ln softmax(.)[target], nats
  double delta_p = 0;                    // softmax(q)[target] - softmax(p)[target]
};

// Two rows of logits [vocab] over the same vocabulary: p of the base, q of the other. Equal rows give 0 in
// every figure, exactly.
struct RowDivergence {
  double max_diff = 0;      // largest |p - q|
  double mean_diff = 0;     // mean |p - q| over the vocabulary
  double kl = 0;            // KL(softmax p || softmax q), nats, never below 0
  double js = 0;            // Jensen and Shannon's: the mean KL of both to their mean, nats, 0 ... ln 2
  bool same_argmax = true;  // of equal maxima the first counts
  double top5_shared = 1;   // the part of p's five largest that are among q's too, in any order
  std::optional<TargetDivergence> target;
  // The first place of the vocabulary where p or q is not finite (-inf too: no model here masks a token);
  // then the figures above mean nothing.
  std::optional<std::int64_t> first_nonfinite;
};

// What Ops::compare_logits found of a row.
RowDivergence row_divergence(const LogitComparison& compared);

// On the host. Throws Error{internal} for rows of different or no length and for a target that is outside of
// them.
RowDivergence compare_rows(std::span<const float> p, std::span<const float> q,
                           std::optional<TokenId> target = std::nullopt);

// Over many positions, in memory that grows with nothing. Rows with a non-finite logit count in
// `nonfinite_rows` and in nothing else.
struct Divergence {
  std::int64_t rows = 0;  // compared, all finite
  double max_diff = 0;    // over all rows
  double max_kl = 0;
  double max_js = 0;
  std::int64_t same_argmax = 0;
  std::int64_t nonfinite_rows = 0;
  std::optional<std::int64_t> first_nonfinite_position;
  QuantileSketch kl;
  // Of the rows that came with a target.
  std::int64_t targets = 0;
  double max_loss_diff = 0;  // largest |loss of other - loss of base| of a token
  QuantileSketch delta_p;
  PairedRatio perplexity;

  Divergence() = default;
  explicit Divergence(std::int64_t block_tokens) : perplexity(block_tokens) {}

  void add(std::int64_t position, const RowDivergence& row);
  double mean_diff() const { return mean(diff_sum_); }
  double mean_kl() const { return mean(kl_sum_.sum()); }
  double mean_js() const { return mean(js_sum_.sum()); }
  double argmax_agreement() const { return mean(static_cast<double>(same_argmax)); }  // 0 ... 1
  double top5_agreement() const { return mean(top5_sum_); }                           // mean of top5_shared
  double mean_delta_p() const;
  double rms_delta_p() const;

 private:
  double mean(double sum) const { return rows == 0 ? 0 : sum / static_cast<double>(rows); }
  double diff_sum_ = 0, top5_sum_ = 0;
  RunningMoments kl_sum_, js_sum_, delta_p_sum_, delta_p_squares_;
};

}  // namespace attn
