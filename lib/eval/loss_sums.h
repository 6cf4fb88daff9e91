// From the losses of windows to perplexity: what weighs what, and per what it is counted. No model needed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/eval/bootstrap.h"
#include "lib/eval/passage.h"
#include "lib/text/tokenizer.h"

namespace attn {

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
  std::int64_t tokens_scored = 0;  // losses; a token that two windows score counts twice
  std::int64_t bytes_scored = 0;   // that the scored tokens decode to, or what the protocol counts
  std::int64_t words_scored = 0;   // that begin in a scored token (at ASCII white space), or as above
  double nll_sum = 0;              // nats
};

// Where a loss was not a number. Nothing after it is scored.
struct NonFiniteLoss {
  std::string passage;
  std::int64_t window, position;  // of the passage, from 0
  std::string text() const;
};

struct PerplexityResult {
  Estimator estimator = Estimator::tokens;
  std::vector<PassageScore> passages;  // those that were begun, in order
  double nll_sum = 0;
  std::int64_t tokens_scored = 0, bytes_scored = 0, words_scored = 0;
  double weight_sum = 0;  // what log_perplexity is a mean over: tokens, passages, windows or labels
  bool stopped = false;   // a hook ended it early
  std::optional<NonFiniteLoss> nonfinite;

  // Nothing where no token was scored, or after a loss that was not finite.
  std::optional<double> log_perplexity;
  std::optional<double> token_log_perplexity;  // nll_sum / tokens_scored, whatever the estimator
  // exp(log_perplexity); nothing where that is beyond a double.
  std::optional<double> perplexity;
  // First order: perplexity * sqrt(s^2 / n), with s^2 the sample variance (divisor n - 1) of the n losses of
  // tokens, or of the n means of passages or windows (weighted: n / (n - 1) sum w^2 (m - mean)^2 / (sum
  // w)^2), taken as independent. Nothing for n < 2.
  std::optional<double> standard_error;
  // Neighbouring tokens are not independent. `bootstrap` is of log_perplexity; times perplexity beside it.
  std::optional<BlockBootstrap> bootstrap;
  std::optional<double> bootstrap_error;

  // exp(nll_sum / words_scored), exp(nll_sum / bytes_scored), nll_sum / (ln 2 * bytes_scored). Nothing where
  // that is beyond a double, or where an unfinished passage has counts of its own.
  std::optional<double> word_perplexity, byte_perplexity, bits_per_byte;
};

// The losses of a window's scored ids, valid until the next call.
using LossSource = std::function<std::span<const double>(const Passage&, const Window&)>;

// Asks for the losses of every window in order. Sums are f64, compensated. The tokenizer only counts bytes
// and words.
PerplexityResult sum_losses(std::span<const Passage> passages, const Tokenizer& tokenizer,
                            Estimator estimator, const LossSource& losses, const ScoreHooks& hooks = {});

}  // namespace attn
