// Perplexity: teacher forcing over windows, every scored token once, the language-model head in blocks of
// rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/model/transformer.h"
#include "lib/text/token.h"
#include "lib/text/tokenizer.h"
#include "lib/text/windows.h"

namespace attn {

// One text as token ids, and which of them are scored with what before them.
struct Passage {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<Window> windows;
};

// How the losses of the tokens become one number. token_mean: every token weighs the same. passage_mean:
// every passage does, however short.
enum class Estimator : unsigned char { token_mean, passage_mean };

// Rows of logits at a time: what bounds the memory of the head, whatever the context is.
inline constexpr int kScoreRows = 128;

// The room that scoring these passages needs: one sequence, the longest window, at most `logits_rows` rows.
RunShape scoring_shape(std::span<const Passage> passages, int logits_rows = kScoreRows);

// predict_memory() of that room and of what the scoring itself takes.
BytesByUse predict_scoring_memory(const ModelConfig& config, DType dtype, const RunShape& shape,
                                  const AttentionBackend& attention);

// The losses (natural log) of tokens first_token, first_token + 1, ... of a passage.
struct WindowLosses {
  std::size_t passage;
  std::int64_t window;  // of the passage
  std::int64_t first_token;
  std::span<const double> losses;
};

struct ScoreHooks {
  std::function<bool()> stop;  // asked before each window; true ends the scoring with the part that is done
  std::function<void(const WindowLosses&)> on_window;
};

struct PassageScore {
  std::string name;
  std::int64_t tokens = 0;         // all ids of the passage
  std::int64_t tokens_scored = 0;  // those with a loss
  std::int64_t bytes_scored = 0;   // that the scored tokens decode to
  double nll_sum = 0;              // nats
};

// Where a loss was not a number. Nothing after it is scored.
struct NonFiniteLoss {
  std::string passage;
  std::int64_t window, position;  // of the passage, from 0
  std::string text() const;
};

struct PerplexityResult {
  Estimator estimator = Estimator::token_mean;
  std::vector<PassageScore> passages;  // those that were begun, in order
  double nll_sum = 0;
  std::int64_t tokens_scored = 0;
  std::int64_t bytes_scored = 0;
  bool stopped = false;  // a hook ended it early
  std::optional<NonFiniteLoss> nonfinite;

  // Nothing where no token was scored, or after a loss that was not finite.
  std::optional<double> log_perplexity;
  std::optional<double> token_log_perplexity;  // nll_sum / tokens_scored, whatever the estimator
  // exp(log_perplexity); nothing where that is beyond a double.
  std::optional<double> perplexity;
  // First order: perplexity * sqrt(s^2 / n), with s^2 the sample variance (divisor n - 1) of the n losses of
  // tokens (token_mean) or of the n means of passages (passage_mean), taken as independent. Nothing for n
  // < 2.
  std::optional<double> standard_error;
  std::optional<double> bits_per_byte;  // nll_sum / (ln 2 * bytes_scored)
};

// Scores all windows of the passages with `attention`. `transformer` must have the shape that scoring_shape()
// gives or more; its cache is cleared. Losses are computed on the device in f64 and summed here in f64. The
// tokenizer only counts bytes. Throws what Transformer::reserve throws.
PerplexityResult score_perplexity(Transformer& transformer, AttentionBackend& attention,
                                  std::span<const Passage> passages, const Tokenizer& tokenizer,
                                  Estimator estimator, const ScoreHooks& hooks = {});

// Mean and sample variance in one pass (Welford 1962), and the sum beside them (Neumaier 1974): all in f64.
class RunningMoments {
 public:
  void add(double value);
  std::int64_t count() const { return count_; }
  double sum() const { return sum_ + compensation_; }
  double mean() const { return mean_; }
  double variance() const { return count_ < 2 ? 0 : squares_ / static_cast<double>(count_ - 1); }

 private:
  std::int64_t count_ = 0;
  double sum_ = 0, compensation_ = 0, mean_ = 0, squares_ = 0;
};

}  // namespace attn
