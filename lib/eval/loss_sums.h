// From the losses of windows to perplexity: what weighs what, and per what it is counted. No model needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/eval/bootstrap.h"
#include "lib/eval/loss_cells.h"
#include "lib/eval/moments.h"
#include "lib/eval/passage.h"

namespace attn {

// Rows of passages that a result keeps.
inline constexpr std::size_t kKeptPassages = 1000;

struct PassageScore {
  std::string name, title;
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
  std::vector<PassageScore> passages;  // the first kKeptPassages that were begun, in order
  std::int64_t passage_count = 0;      // all that were begun
  double nll_sum = 0;
  std::int64_t tokens_scored = 0, bytes_scored = 0, words_scored = 0;
  double weight_sum = 0;  // what log_perplexity is a mean over: tokens, passages, windows or labels
  bool stopped = false;   // it ended early
  std::optional<NonFiniteLoss> nonfinite;

  // Nothing where no token was scored, or after a loss that was not finite.
  std::optional<double> log_perplexity;
  std::optional<double> token_log_perplexity;  // nll_sum / tokens_scored (micro), whatever the estimator
  // The mean of the passages' nll_sum / tokens_scored (macro), each of the same weight, whatever the
  // estimator.
  std::optional<double> macro_log_perplexity;
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

// Takes the losses of windows in the order of the text. Sums are f64, compensated. Memory does not grow with
// the text: the bootstrap keeps at most `most_cells` cells (LossCells), and of a passage under
// Estimator::passages the losses until its end.
class PerplexitySums {
 public:
  explicit PerplexitySums(Estimator estimator, std::size_t most_cells = kBootstrapCells);

  // `losses`: of the window's scored tokens. False: one of them is not finite, and the window is not counted;
  // nothing may be added after that.
  bool add(const Passage& passage, std::size_t window, std::span<const double> losses);
  // The text ends there for a reason that losses did not show.
  void end_at(NonFiniteLoss place) { so_far_.nonfinite = std::move(place); }
  std::int64_t tokens_scored() const { return tokens_.count(); }
  // Of what was added; `stopped`: that is not all.
  PerplexityResult result(bool stopped) const;

 private:
  void end_passage(bool complete);
  void add_unit(const RunningMoments& moments, double weight);
  void conclude(PerplexityResult& result) const;

  Estimator estimator_;
  RunningMoments tokens_, passage_means_;
  LossCells cells_;
  // Means of windows or passages, m of weight w: sums of w m and w, and what their variance needs.
  RunningMoments weighted_, weights_;
  std::int64_t units_ = 0;
  double squared_weights_ = 0, centre_ = 0, squares_ = 0;
  PerplexityResult so_far_;  // passages, counts, the loss that was not finite
  // The passage under way.
  bool open_ = false;
  std::string name_, title_;
  std::int64_t passage_tokens_ = 0;
  bool own_counts_ = false;  // of the whole passage
  TextCounts counts_;
  RunningMoments of_passage_;
  std::vector<double> passage_losses_;
  bool counts_known_ = true;
};

}  // namespace attn
