// Windows to losses: teacher forcing on the device.
#include "lib/eval/perplexity.h"

#include <algorithm>
#include <vector>

namespace attn {
namespace {

std::int64_t longest_window(std::span<const Passage> passages) {
  std::int64_t longest = 1;
  for (const Passage& passage : passages) {
    for (const Window& window : passage.windows) longest = std::max(longest, window.tokens());
  }
  return longest;
}

// Memory on the device for one window's targets and losses, taken once.
class WindowScorer {
 public:
  WindowScorer(Transformer& transformer, AttentionBackend& attention, std::int64_t longest)
      : transformer_(transformer), attention_(attention), device_(*transformer.platform().device) {
    const int tokens = static_cast<int>(longest);
    transformer_.reserve(attention_, {tokens, tokens});
    targets_ = device_.allocate_tensor(DType::i32, {longest}, MemoryUse::other);
    device_losses_ = device_.allocate(static_cast<std::size_t>(longest) * sizeof(double), MemoryUse::other);
    losses_.resize(static_cast<std::size_t>(longest));
  }

  // Losses of the window's scored tokens, valid until the next call.
  std::span<const double> score(const Passage& passage, const Window& window) {
    transformer_.clear();
    const TensorView fed = transformer_.upload_ids(fed_ = fed_ids(passage, window));
    const TensorView hidden = transformer_.forward(fed, attention_);
    const TensorView rows = hidden.reshaped({window.tokens(), hidden.extent(2)});

    const std::int64_t scored = window.scored();
    device_.upload(targets_.view.data, &passage.ids[static_cast<std::size_t>(window.first_scored)],
                   static_cast<std::size_t>(scored) * sizeof(TokenId));
    // The row that predicts token t is that of token t - 1, and BOS comes before all.
    const std::int64_t first_row = window.first_scored - 1 - window.begin + (window.bos ? 1 : 0);
    auto* const losses = static_cast<double*>(device_losses_.data());
    const std::int64_t block = transformer_.shape().logits_rows;
    for (std::int64_t done = 0; done < scored; done += block) {
      const std::int64_t count = std::min(block, scored - done);
      const TensorView logits = transformer_.logits(rows.slice(0, first_row + done, count));
      transformer_.platform().ops->token_losses(logits, targets_.view.slice(0, done, count), losses + done);
    }
    device_.download(losses_.data(), losses, static_cast<std::size_t>(scored) * sizeof(double));
    return {losses_.data(), static_cast<std::size_t>(scored)};
  }

 private:
  Transformer& transformer_;
  AttentionBackend& attention_;
  Device& device_;
  Tensor targets_;        // [longest window] i32
  Buffer device_losses_;  // [longest window] f64
  std::vector<TokenId> fed_;
  std::vector<double> losses_;
};

}  // namespace

RunShape scoring_shape(std::span<const Passage> passages, int logits_rows) {
  const int longest = static_cast<int>(longest_window(passages));
  return {1, longest, longest, std::min(logits_rows, longest)};
}

BytesByUse predict_scoring_memory(const ModelConfig& config, DType dtype, const RunShape& shape,
                                  const AttentionBackend& attention) {
  const Reservation call{shape.step, shape.step};
  BytesByUse bytes = predict_memory(config, dtype, shape, attention, {&call, 1});
  bytes[static_cast<std::size_t>(MemoryUse::other)] +=
      static_cast<std::size_t>(shape.step) * (sizeof(TokenId) + sizeof(double));
  return bytes;
}

PerplexityResult score_perplexity(Transformer& transformer, AttentionBackend& attention,
                                  std::span<const Passage> passages, const Tokenizer& tokenizer,
                                  Estimator estimator, const ScoreHooks& hooks) {
  WindowScorer scorer(transformer, attention, longest_window(passages));
  return sum_losses(
      passages, tokenizer, estimator,
      [&](const Passage& passage, const Window& window) { return scorer.score(passage, window); }, hooks);
}

}  // namespace attn
