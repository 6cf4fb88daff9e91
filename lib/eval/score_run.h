// ScoreRun: the one loop over a data set: windows of passages in batches through a WindowScorer, and what
// they sum up to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/eval/loss_sums.h"
#include "lib/eval/position_buckets.h"
#include "lib/eval/window_scorer.h"

namespace attn {

// Passages in order, nothing at the end. What it throws ends the run (ScoreRun::source_error).
using PassageSource = std::function<std::optional<Passage>()>;

// The losses (nats) of tokens first_token, first_token + 1, ... of a passage.
struct WindowLosses {
  std::size_t variant;
  std::int64_t passage;  // from 0
  std::int64_t window;   // of the passage
  std::int64_t first_token;
  std::span<const double> losses;
};

struct ScoreHooks {
  std::function<bool()> stop;  // asked before each batch; true ends the scoring with the part that is done
  std::function<void(const WindowLosses&)> on_window;
  std::function<void(std::int64_t tokens_fed)> on_batch;  // so far, of all windows that are done
};

// Per token, over those that both scored.
struct LossDifference {
  double max_diff = 0;   // largest |loss of other - loss of base|
  RunningMoments diffs;  // of loss of other - loss of base

  double mean() const { return diffs.count() == 0 ? 0 : diffs.sum() / static_cast<double>(diffs.count()); }
  std::optional<double> standard_error() const;  // tokens paired: sqrt(s^2 / n); nothing for n < 2
};

struct PairScore {
  BucketedDivergence divergence;
  LossDifference losses;
};

struct VariantScore {
  PerplexityResult perplexity;
  // Of the device's time for its passes, logits and losses; of one variant alone the time of the run.
  double seconds = 0;
};

// Where a logit or a loss was not finite, and what gives it again.
struct NonFiniteScore {
  std::size_t variant = 0;
  std::string passage;
  std::int64_t window = 0;            // of the passage, from 0
  std::int64_t position = 0;          // of the token in the passage that the row predicts
  std::int64_t row = 0;               // of the window
  std::optional<std::int64_t> place;  // in the vocabulary; nothing where feeding it alone shows none
  std::vector<TokenId> fed;           // the ids of the window
  std::string text() const;
};

struct ScoreRun {
  std::vector<VariantScore> variants;
  std::vector<PairScore> pairs;
  double seconds = 0;                        // of the run
  double compared_seconds = 0;               // of the device, for the pairs
  std::int64_t windows = 0, tokens_fed = 0;  // of the windows that are done, tokens of one variant
  double flops = 0;                          // of them, scoring_flops() of one variant
  bool stopped = false;                      // by the hook
  // The run ends there. Its window is in no variant's perplexity; pairs hold its rows before that one.
  std::optional<NonFiniteScore> nonfinite;
  std::optional<Error> source_error;  // the text could not be read further

  // Every window of the source is in it.
  bool complete() const { return !stopped && !nonfinite && !source_error; }
};

// Of one window, fed in one call: products with weights (of the head for scored rows alone) and attention
// over the pairs that are seen, as forward_work() counts them; rows that only fill a batch up are not
// counted.
double scoring_flops(const ModelConfig& config, const Window& window);

// Passages are dropped once their windows are done. Throws what WindowScorer::submit() throws.
ScoreRun score_run(WindowScorer& scorer, const PassageSource& passages, Estimator estimator,
                   const ScoreHooks& hooks = {});

}  // namespace attn
