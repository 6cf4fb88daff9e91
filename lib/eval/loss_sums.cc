// Sums as the windows come, then the figures that follow from them.
#include "lib/eval/loss_sums.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

double mean_of(const RunningMoments& moments) { return moments.sum() / static_cast<double>(moments.count()); }

}  // namespace

std::string NonFiniteLoss::text() const {
  return fmt::format("{}: the loss of token {} (window {}) is not a finite number", passage, position,
                     window);
}

PerplexitySums::PerplexitySums(Estimator estimator, std::size_t most_cells)
    : estimator_(estimator), cells_(estimator == Estimator::tokens, most_cells) {
  so_far_.estimator = estimator;
}

bool PerplexitySums::add(const Passage& passage, std::size_t window, std::span<const double> losses) {
  const auto bad =
      std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
  if (bad != losses.end()) {
    so_far_.nonfinite = NonFiniteLoss{passage.name, static_cast<std::int64_t>(window),
                                      passage.windows[window].first_scored + (bad - losses.begin())};
    return false;
  }
  if (window == 0) {
    open_ = true;
    name_ = passage.name;
    title_ = passage.title;
    passage_tokens_ = static_cast<std::int64_t>(passage.ids.size());
    own_counts_ = passage.counts.has_value();
    counts_ = {};
    of_passage_ = {};
  }
  RunningMoments of_window;
  for (const double loss : losses) {
    tokens_.add(loss);
    of_passage_.add(loss);
    of_window.add(loss);
  }
  const double count = static_cast<double>(losses.size());
  switch (estimator_) {
    case Estimator::tokens:
      for (const double loss : losses) cells_.add(loss, 1);
      break;
    case Estimator::passages:
      passage_losses_.insert(passage_losses_.end(), losses.begin(), losses.end());
      break;
    case Estimator::windows:
    case Estimator::labels: {
      const double weight = estimator_ == Estimator::windows ? 1 : passage.window_weights.at(window);
      for (const double loss : losses) cells_.add(loss, weight / count);
      add_unit(of_window, weight);
      break;
    }
  }
  if (!own_counts_) {
    counts_.bytes += passage.window_counts.at(window).bytes;
    counts_.words += passage.window_counts.at(window).words;
  }
  if (window + 1 < passage.windows.size()) return true;
  if (own_counts_) counts_ = *passage.counts;
  end_passage(true);
  return true;
}

void PerplexitySums::end_passage(bool complete) {
  open_ = false;
  if (own_counts_ && !complete) counts_known_ = false;
  if (estimator_ == Estimator::passages && of_passage_.count() > 0) {
    const double weight = 1 / static_cast<double>(of_passage_.count());
    for (const double loss : passage_losses_) cells_.add(loss, weight);
    add_unit(of_passage_, 1);
    passage_losses_.clear();
  }
  ++so_far_.passage_count;
  if (of_passage_.count() > 0) passage_means_.add(mean_of(of_passage_));
  if (so_far_.passages.size() < kKeptPassages) {
    so_far_.passages.push_back({name_, title_, passage_tokens_, of_passage_.count(), counts_.bytes,
                                counts_.words, of_passage_.sum()});
  }
  so_far_.bytes_scored += counts_.bytes;
  so_far_.words_scored += counts_.words;
}

// The sum of w^2 (m - centre)^2 as it goes, with weights w^2 (West 1979).
void PerplexitySums::add_unit(const RunningMoments& moments, double weight) {
  const double mean = mean_of(moments);
  weighted_.add(weight * mean);
  weights_.add(weight);
  ++units_;
  const double square = weight * weight;
  if (square == 0) return;
  squared_weights_ += square;
  const double delta = mean - centre_;
  centre_ += delta * square / squared_weights_;
  squares_ += square * delta * (mean - centre_);
}

PerplexityResult PerplexitySums::result(bool stopped) const {
  if (open_) {
    PerplexitySums ended = *this;
    ended.end_passage(false);
    return ended.result(stopped);
  }
  PerplexityResult result = so_far_;
  result.stopped = stopped;
  conclude(result);
  return result;
}

void PerplexitySums::conclude(PerplexityResult& result) const {
  result.nll_sum = tokens_.sum();
  result.tokens_scored = tokens_.count();
  if (result.nonfinite || tokens_.count() == 0) return;
  result.token_log_perplexity = mean_of(tokens_);
  result.macro_log_perplexity = mean_of(passage_means_);
  const bool by_tokens = estimator_ == Estimator::tokens;
  result.weight_sum = by_tokens ? static_cast<double>(tokens_.count()) : weights_.sum();
  if (result.weight_sum <= 0) return;
  const double log_perplexity = by_tokens ? mean_of(tokens_) : weighted_.sum() / weights_.sum();
  result.log_perplexity = log_perplexity;
  if (counts_known_ && result.words_scored > 0)
    result.word_perplexity = finite(std::exp(tokens_.sum() / static_cast<double>(result.words_scored)));
  if (counts_known_ && result.bytes_scored > 0) {
    const auto bytes = static_cast<double>(result.bytes_scored);
    result.byte_perplexity = finite(std::exp(tokens_.sum() / bytes));
    result.bits_per_byte = tokens_.sum() / (std::log(2.0) * bytes);
  }
  result.bootstrap = cells_.bootstrap();
  const double perplexity = std::exp(log_perplexity);
  if (!std::isfinite(perplexity)) return;
  result.perplexity = perplexity;
  if (result.bootstrap) result.bootstrap_error = finite(perplexity * result.bootstrap->error);
  const auto units = static_cast<double>(by_tokens ? tokens_.count() : units_);
  if (units < 2) return;
  const double shift = centre_ - log_perplexity;
  const double variance = by_tokens ? tokens_.variance() / units
                                    : (squares_ + squared_weights_ * shift * shift) /
                                          (weights_.sum() * weights_.sum()) * units / (units - 1);
  result.standard_error = finite(perplexity * std::sqrt(variance));
}

}  // namespace attn
