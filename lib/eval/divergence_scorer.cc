// Window by window: hidden states of all variants, then logits in blocks of rows.
#include "lib/eval/divergence_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"

namespace attn {

DivergenceScorer::DivergenceScorer(std::vector<ScoredVariant> variants, std::vector<VariantPair> pairs,
                                   std::int64_t longest, std::int64_t error_block_tokens)
    : variants_(std::move(variants)), pairs_(std::move(pairs)) {
  if (variants_.empty() || pairs_.empty()) fail(ErrorKind::internal, "there is nothing to compare");
  block_ = longest;
  vocab_ = variants_.front().transformer->config().vocab;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    Transformer& transformer = *variants_[i].transformer;
    const RunShape& shape = transformer.shape();
    const bool used = std::any_of(pairs_.begin(), pairs_.end(),
                                  [&](const VariantPair& pair) { return pair.base == i || pair.other == i; });
    const std::int64_t step = variants_[i].path == ForwardPath::prefill ? longest : 1;
    if (!used || transformer.config().vocab != vocab_ || shape.batch != 1 || shape.capacity < longest ||
        shape.step < step)
      fail(ErrorKind::internal, "variant {} does not fit windows of {} tokens and its pairs", i, longest);
    block_ = std::min<std::int64_t>(block_, shape.logits_rows);
    states_.push_back(transformer.platform().device->allocate_tensor(
        transformer.dtype(), {longest, transformer.config().hidden}, MemoryUse::activations));
  }
  for (const VariantPair& pair : pairs_) {
    if (std::max(pair.base, pair.other) >= variants_.size())
      fail(ErrorKind::internal, "a pair names variant {} of {}", std::max(pair.base, pair.other),
           variants_.size());
    divergences_.emplace_back(longest, error_block_tokens);
  }
  logits_.assign(variants_.size(), std::vector<float>(static_cast<std::size_t>(block_ * vocab_)));
  losses_.resize(variants_.size());
  compared_.resize(static_cast<std::size_t>(block_) * pairs_.size());
}

std::size_t DivergenceScorer::state_bytes(std::span<const ScoredVariant> variants, std::int64_t longest) {
  std::size_t bytes = 0;
  for (const ScoredVariant& variant : variants) {
    bytes += static_cast<std::size_t>(longest * variant.transformer->config().hidden) *
             size_of(variant.transformer->dtype());
  }
  return bytes;
}

void DivergenceScorer::fetch_logits(std::int64_t first_row, std::int64_t rows) {
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    Transformer& transformer = *variants_[i].transformer;
    const TensorView logits = transformer.logits(states_[i].view.slice(0, first_row, rows));
    transformer.platform().device->download(logits_[i].data(), logits.data, logits.bytes());
  }
}

std::span<const float> DivergenceScorer::row_of(std::size_t variant, std::int64_t row) const {
  return {logits_[variant].data() + row * vocab_, static_cast<std::size_t>(vocab_)};
}

std::optional<NonFiniteLogit> DivergenceScorer::add(std::span<const TokenId> fed, std::int64_t first_row,
                                                    std::span<const TokenId> targets) {
  const auto scored = static_cast<std::int64_t>(targets.size());
  if (static_cast<std::int64_t>(fed.size()) > states_.front().view.extent(0) || first_row < 0 ||
      first_row + scored > static_cast<std::int64_t>(fed.size()))
    fail(ErrorKind::internal, "a window of {} tokens has no rows {} to {}", fed.size(), first_row,
         first_row + scored);
  for (const TokenId target : targets) {
    if (target < 0 || target >= vocab_)
      fail(ErrorKind::internal, "target {} is not among {} logits", target, vocab_);
  }
  for (std::vector<double>& losses : losses_)
    losses.assign(targets.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const ScoredVariant& variant = variants_[i];
    final_states(*variant.transformer, *variant.attention, fed, variant.path,
                 states_[i].view.slice(0, 0, static_cast<std::int64_t>(fed.size())));
  }
  const auto pairs = static_cast<std::int64_t>(pairs_.size());
  for (std::int64_t done = 0; done < scored; done += block_) {
    const std::int64_t rows = std::min(block_, scored - done);
    fetch_logits(first_row + done, rows);
#pragma omp parallel for schedule(dynamic)
    for (std::int64_t i = 0; i < rows * pairs; ++i) {
      const VariantPair& pair = pairs_[static_cast<std::size_t>(i % pairs)];
      const std::int64_t row = i / pairs;
      compared_[static_cast<std::size_t>(i)] = compare_rows(row_of(pair.base, row), row_of(pair.other, row),
                                                            targets[static_cast<std::size_t>(done + row)]);
    }
    for (std::int64_t i = 0; i < rows * pairs; ++i) {
      const auto of_pair = static_cast<std::size_t>(i % pairs);
      const VariantPair& pair = pairs_[of_pair];
      const std::int64_t row = i / pairs;
      const RowDivergence& compared = compared_[static_cast<std::size_t>(i)];
      divergences_[of_pair].add(first_row + done + row, compared);
      if (compared.first_nonfinite) {
        const std::int64_t place = *compared.first_nonfinite;
        const bool in_base = !std::isfinite(row_of(pair.base, row)[static_cast<std::size_t>(place)]);
        return NonFiniteLogit{in_base ? pair.base : pair.other, first_row + done + row, place};
      }
      losses_[pair.base][static_cast<std::size_t>(done + row)] = compared.target->base_loss;
      losses_[pair.other][static_cast<std::size_t>(done + row)] = compared.target->other_loss;
    }
  }
  return std::nullopt;
}

}  // namespace attn
