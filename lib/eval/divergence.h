// Divergence: how far two computations of the same logits are apart, in double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace attn {

// Two rows of logits [vocab] over the same vocabulary.
struct RowDivergence {
  double max_diff = 0;      // largest |p - q|
  double mean_diff = 0;     // mean |p - q| over the vocabulary
  double kl = 0;            // KL(softmax p || softmax q), nats, never below 0
  bool same_argmax = true;  // the first of equal maxima counts
  // The first place of the vocabulary where p or q is not finite; then the figures above mean nothing.
  std::optional<std::int64_t> first_nonfinite;
};

// Throws Error{internal} for rows of different or no length.
RowDivergence compare_rows(std::span<const float> p, std::span<const float> q);

// Over many positions. Rows with a non-finite logit count in `nonfinite_rows` and in nothing else.
struct Divergence {
  std::int64_t rows = 0;  // compared, all finite
  double max_diff = 0;    // over all rows
  double max_kl = 0;
  std::int64_t same_argmax = 0;
  std::int64_t nonfinite_rows = 0;
  std::optional<std::int64_t> first_nonfinite_position;

  void add(std::int64_t position, const RowDivergence& row);
  double mean_diff() const { return mean(diff_sum_); }
  double mean_kl() const { return mean(kl_sum_); }
  double argmax_agreement() const { return mean(static_cast<double>(same_argmax)); }  // 0 ... 1

 private:
  double mean(double sum) const { return rows == 0 ? 0 : sum / static_cast<double>(rows); }
  double diff_sum_ = 0, kl_sum_ = 0;
};

}  // namespace attn
