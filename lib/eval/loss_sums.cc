// One pass over the windows, then the figures that follow from the sums.
#include "lib/eval/loss_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/eval/moments.h"

namespace attn {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Bytes and words of the ids that windows score, in their order.
class ScoredText {
 public:
  ScoredText(const Passage& passage, const Tokenizer& tokenizer) : passage_(passage), tokenizer_(tokenizer) {}

  void add(const Window& window) {
    if (window.first_scored != next_) after_space_ = ends_in_space(window.first_scored);
    next_ = window.end;
    const auto at = [&](std::int64_t token) { return passage_.ids.begin() + token; };
    const std::string text = tokenizer_.decode({at(window.first_scored), at(window.end)});
    counts_.bytes += static_cast<std::int64_t>(text.size());
    for (const char c : text) {
      if (after_space_ && !is_space(c)) ++counts_.words;
      after_space_ = is_space(c);
    }
  }
  const TextCounts& counts() const { return counts_; }

 private:
  // Of what stands before a token; a text begins like after a space.
  bool ends_in_space(std::int64_t token) const {
    if (token == 0) return true;
    const std::string before = tokenizer_.decode({passage_.ids.begin() + token - 1, 1});
    return !before.empty() && is_space(before.back());
  }

  const Passage& passage_;
  const Tokenizer& tokenizer_;
  TextCounts counts_;
  std::int64_t next_ = 0;  // the token after the last one that was counted
  bool after_space_ = true;
};

// Means of windows or passages with their weights.
struct Units {
  std::vector<double> means, weights;

  void add(double mean, double weight) {
    means.push_back(mean);
    weights.push_back(weight);
  }
  double weight_sum() const {
    RunningMoments sum;
    for (const double weight : weights) sum.add(weight);
    return sum.sum();
  }
  double mean() const {
    RunningMoments sum;
    for (std::size_t i = 0; i < means.size(); ++i) sum.add(weights[i] * means[i]);
    return sum.sum() / weight_sum();
  }
  // Variance of mean() with the units taken as independent.
  double variance_of_mean() const {
    const double centre = mean(), mass = weight_sum();
    double sum = 0;
    for (std::size_t i = 0; i < means.size(); ++i) {
      const double part = weights[i] * (means[i] - centre) / mass;
      sum += part * part;
    }
    const auto n = static_cast<double>(means.size());
    return sum * n / (n - 1);
  }
};

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Takes the losses one window at a time and keeps them, with what each weighs.
class LossSums {
 public:
  explicit LossSums(Estimator estimator) : estimator_(estimator) {}

  void add_window(std::span<const double> losses, double labels) {
    RunningMoments of_window;
    for (const double loss : losses) {
      tokens_.add(loss);
      of_window.add(loss);
    }
    losses_.insert(losses_.end(), losses.begin(), losses.end());
    if (estimator_ == Estimator::windows) add_unit(of_window, 1);
    if (estimator_ == Estimator::labels) add_unit(of_window, labels);
  }
  void end_passage(const RunningMoments& of_passage) {
    if (estimator_ == Estimator::passages && of_passage.count() > 0) add_unit(of_passage, 1);
  }

  void conclude(PerplexityResult& result, bool counts_known) const {
    result.nll_sum = tokens_.sum();
    result.tokens_scored = tokens_.count();
    if (result.nonfinite || tokens_.count() == 0) return;
    result.token_log_perplexity = mean_of_tokens();
    const bool by_tokens = estimator_ == Estimator::tokens;
    result.weight_sum = by_tokens ? static_cast<double>(tokens_.count()) : units_.weight_sum();
    if (result.weight_sum <= 0) return;
    const double log_perplexity = by_tokens ? mean_of_tokens() : units_.mean();
    result.log_perplexity = log_perplexity;
    if (counts_known) per_word_and_byte(result);
    result.bootstrap = block_bootstrap(losses_, token_weights_);
    const double perplexity = std::exp(log_perplexity);
    if (!std::isfinite(perplexity)) return;
    result.perplexity = perplexity;
    if (result.bootstrap) result.bootstrap_error = finite(perplexity * result.bootstrap->error);
    const std::size_t units = by_tokens ? losses_.size() : units_.means.size();
    if (units < 2) return;
    const double variance =
        by_tokens ? tokens_.variance() / static_cast<double>(units) : units_.variance_of_mean();
    result.standard_error = finite(perplexity * std::sqrt(variance));
  }

 private:
  void add_unit(const RunningMoments& moments, double weight) {
    const auto count = static_cast<double>(moments.count());
    units_.add(moments.sum() / count, weight);
    token_weights_.resize(losses_.size(), weight / count);
  }
  double mean_of_tokens() const { return tokens_.sum() / static_cast<double>(tokens_.count()); }
  void per_word_and_byte(PerplexityResult& result) const {
    if (result.words_scored > 0)
      result.word_perplexity = finite(std::exp(tokens_.sum() / static_cast<double>(result.words_scored)));
    if (result.bytes_scored == 0) return;
    const auto bytes = static_cast<double>(result.bytes_scored);
    result.byte_perplexity = finite(std::exp(tokens_.sum() / bytes));
    result.bits_per_byte = tokens_.sum() / (std::log(2.0) * bytes);
  }

  Estimator estimator_;
  RunningMoments tokens_;
  Units units_;
  std::vector<double> losses_, token_weights_;  // the weights are empty where all are 1
};

}  // namespace

std::vector<TokenId> fed_ids(const Passage& passage, const Window& window) {
  std::vector<TokenId> ids;
  ids.reserve(static_cast<std::size_t>(window.tokens()));
  if (window.bos) {
    if (!passage.bos)
      fail(ErrorKind::internal, "{}: a window begins with BOS and there is none", passage.name);
    ids.push_back(*passage.bos);
  }
  ids.insert(ids.end(), passage.ids.begin() + window.begin,
             passage.ids.begin() + window.end - (window.target_last ? 1 : 0));
  return ids;
}

std::string NonFiniteLoss::text() const {
  return fmt::format("{}: the loss of token {} (window {}) is not a finite number", passage, position,
                     window);
}

PerplexityResult sum_losses(std::span<const Passage> passages, const Tokenizer& tokenizer,
                            Estimator estimator, const LossSource& source, const ScoreHooks& hooks) {
  PerplexityResult result;
  result.estimator = estimator;
  LossSums sums(estimator);
  bool counts_known = true;
  for (std::size_t index = 0; index < passages.size(); ++index) {
    const Passage& passage = passages[index];
    if (passage.windows.empty()) continue;
    ScoredText text(passage, tokenizer);
    RunningMoments of_passage;
    std::size_t done = 0;
    for (; done < passage.windows.size(); ++done) {
      if (hooks.stop && hooks.stop()) {
        result.stopped = true;
        break;
      }
      const Window& window = passage.windows[done];
      const auto number = static_cast<std::int64_t>(done);
      const std::span<const double> losses = source(passage, window);
      const auto bad =
          std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
      if (bad != losses.end()) {
        result.nonfinite = NonFiniteLoss{passage.name, number, window.first_scored + (bad - losses.begin())};
        break;
      }
      for (const double loss : losses) of_passage.add(loss);
      sums.add_window(losses, estimator == Estimator::labels ? passage.window_weights.at(done) : 0);
      if (!passage.counts) text.add(window);
      if (hooks.on_window) hooks.on_window({index, number, window.first_scored, losses});
    }
    sums.end_passage(of_passage);
    if (done > 0) {
      const bool complete = done == passage.windows.size();
      if (passage.counts && !complete) counts_known = false;
      const TextCounts counts = !passage.counts ? text.counts() : complete ? *passage.counts : TextCounts{};
      result.passages.push_back({passage.name, static_cast<std::int64_t>(passage.ids.size()),
                                 of_passage.count(), counts.bytes, counts.words, of_passage.sum()});
      result.bytes_scored += counts.bytes;
      result.words_scored += counts.words;
    }
    if (result.stopped || result.nonfinite) break;
  }
  sums.conclude(result, counts_known);
  return result;
}

}  // namespace attn
