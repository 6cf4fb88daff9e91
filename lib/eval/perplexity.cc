// Windows to losses, losses to perplexity.
#include "lib/eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

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
  std::span<const double> score(std::span<const TokenId> ids, const Window& window) {
    const auto at = [&](std::int64_t token) { return ids.begin() + token; };
    transformer_.clear();
    const TensorView fed = transformer_.upload_ids({at(window.begin), at(window.end)});
    const TensorView hidden = transformer_.forward(fed, attention_);
    const TensorView rows = hidden.reshaped({window.tokens(), hidden.extent(2)});

    const std::int64_t scored = window.scored();
    device_.upload(targets_.view.data, &*at(window.first_scored),
                   static_cast<std::size_t>(scored) * sizeof(TokenId));
    // The row that predicts token t is that of token t - 1.
    const std::int64_t first_row = window.first_scored - 1 - window.begin;
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
  std::vector<double> losses_;
};

// The figures that follow from the sums.
void conclude(PerplexityResult& result, const RunningMoments& tokens, const RunningMoments& passage_means) {
  result.nll_sum = tokens.sum();
  result.tokens_scored = tokens.count();
  if (result.nonfinite || tokens.count() == 0) return;
  const double token_mean = tokens.sum() / static_cast<double>(tokens.count());
  const RunningMoments& of = result.estimator == Estimator::token_mean ? tokens : passage_means;
  const double log_perplexity =
      result.estimator == Estimator::token_mean ? token_mean : of.sum() / static_cast<double>(of.count());
  result.token_log_perplexity = token_mean;
  result.log_perplexity = log_perplexity;
  if (result.bytes_scored > 0)
    result.bits_per_byte = tokens.sum() / (std::log(2.0) * static_cast<double>(result.bytes_scored));
  const double perplexity = std::exp(log_perplexity);
  if (!std::isfinite(perplexity)) return;
  result.perplexity = perplexity;
  if (of.count() >= 2) {
    const double error = perplexity * std::sqrt(of.variance() / static_cast<double>(of.count()));
    if (std::isfinite(error)) result.standard_error = error;
  }
}

}  // namespace

void RunningMoments::add(double value) {
  ++count_;
  const double next = sum_ + value;
  compensation_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - next) + value : (value - next) + sum_;
  sum_ = next;
  const double delta = value - mean_;
  mean_ += delta / static_cast<double>(count_);
  squares_ += delta * (value - mean_);
}

std::string NonFiniteLoss::text() const {
  return fmt::format("{}: the loss of token {} (window {}) is not a finite number", passage, position,
                     window);
}

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
  PerplexityResult result;
  result.estimator = estimator;
  WindowScorer scorer(transformer, attention, longest_window(passages));
  RunningMoments tokens, passage_means;
  for (std::size_t index = 0; index < passages.size(); ++index) {
    const Passage& passage = passages[index];
    if (passage.windows.empty()) continue;
    PassageScore score{passage.name, static_cast<std::int64_t>(passage.ids.size()), 0, 0, 0};
    RunningMoments of_passage;
    for (std::size_t w = 0; w < passage.windows.size() && !result.stopped && !result.nonfinite; ++w) {
      if (hooks.stop && hooks.stop()) {
        result.stopped = true;
        break;
      }
      const Window& window = passage.windows[w];
      const std::span<const double> losses = scorer.score(passage.ids, window);
      const auto bad =
          std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
      if (bad != losses.end()) {
        result.nonfinite = NonFiniteLoss{passage.name, static_cast<std::int64_t>(w),
                                         window.first_scored + (bad - losses.begin())};
        break;
      }
      for (const double loss : losses) {
        tokens.add(loss);
        of_passage.add(loss);
      }
      score.bytes_scored += static_cast<std::int64_t>(
          tokenizer
              .decode({passage.ids.begin() + window.first_scored, static_cast<std::size_t>(window.scored())})
              .size());
      if (hooks.on_window)
        hooks.on_window({index, static_cast<std::int64_t>(w), window.first_scored, losses});
    }
    score.tokens_scored = of_passage.count();
    score.nll_sum = of_passage.sum();
    result.bytes_scored += score.bytes_scored;
    if (score.tokens_scored > 0) {
      passage_means.add(of_passage.sum() / static_cast<double>(of_passage.count()));
      result.passages.push_back(std::move(score));
    }
    if (result.stopped || result.nonfinite) break;
  }
  conclude(result, tokens, passage_means);
  return result;
}

}  // namespace attn
