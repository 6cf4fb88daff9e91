// While the device works on one batch, the next is read and given to it; then the earlier one is fetched and
// summed up.
#include "lib/eval/score_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>

#include "lib/model/work.h"

namespace attn {
namespace {

struct Placed {
  std::shared_ptr<const Passage> passage;
  std::int64_t number;  // of the passage
  std::size_t window;
};

// Windows of passages in order, in batches.
class Batches {
 public:
  Batches(const PassageSource& source, std::size_t batch) : source_(source), batch_(batch) {}

  // Empty at the end; `error`: what the source threw.
  std::vector<Placed> next(std::optional<Error>& error) {
    std::vector<Placed> batch;
    while (batch.size() < batch_) {
      if (passage_ != nullptr && window_ < passage_->windows.size()) {
        batch.push_back({passage_, number_, window_++});
        continue;
      }
      if (ended_ || !read(error)) break;
    }
    return batch;
  }

 private:
  bool read(std::optional<Error>& error) {
    ended_ = true;
    try {
      std::optional<Passage> passage = source_();
      if (!passage) return false;
      passage_ = std::make_shared<const Passage>(std::move(*passage));
    } catch (const Error& thrown) {
      error = thrown;
      return false;
    }
    ended_ = false;
    ++number_;
    window_ = 0;
    return true;
  }

  const PassageSource& source_;
  std::size_t batch_;
  std::shared_ptr<const Passage> passage_;
  std::int64_t number_ = -1;
  std::size_t window_ = 0;
  bool ended_ = false;
};

// Of one window.
struct FirstNonFinite {
  std::size_t row, variant;
};

class Sums {
 public:
  Sums(WindowScorer& scorer, Estimator estimator, const ScoreHooks& hooks)
      : scorer_(scorer), hooks_(hooks), variants_(scorer.variants().size(), PerplexitySums(estimator)) {
    for (std::size_t p = 0; p < scorer.pairs().size(); ++p)
      run_.pairs.push_back({BucketedDivergence(scorer.room().tokens), {}});
    run_.variants.resize(variants_.size());
  }
  ScoreRun& run() { return run_; }

  // False: a window of the batch had a value that is not finite; it and those after it are left out.
  bool add(const std::vector<Placed>& batch, const WindowBatchScores& scores) {
    for (std::size_t v = 0; v < variants_.size(); ++v) run_.variants[v].seconds += scores.variant_ms[v] / 1e3;
    run_.compared_seconds += scores.compared_ms / 1e3;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!add_window(batch[i], scores, i)) return false;
    }
    if (hooks_.on_batch) hooks_.on_batch(run_.tokens_fed);
    return true;
  }

  // Feeds the window of the bad value again; its passage must still be there.
  void look_again() {
    NonFiniteScore& found = *run_.nonfinite;
    if (const auto logit = scorer_.first_nonfinite(bad_)) {
      found.variant = logit->variant;
      found.position += logit->row - found.row;
      found.row = logit->row;
      found.place = logit->place;
    }
    variants_[found.variant].end_at({found.passage, found.window, found.position});
  }

  ScoreRun finish(double seconds) {
    run_.seconds = seconds;
    if (run_.variants.size() == 1) run_.variants.front().seconds = seconds;
    for (std::size_t v = 0; v < variants_.size(); ++v)
      run_.variants[v].perplexity = variants_[v].result(!run_.complete());
    return std::move(run_);
  }

 private:
  bool add_window(const Placed& placed, const WindowBatchScores& scores, std::size_t i) {
    const Passage& passage = *placed.passage;
    const Window& window = passage.windows[placed.window];
    const auto bad = first_nonfinite(scores, i);
    const std::size_t rows = bad ? bad->row + 1 : static_cast<std::size_t>(window.scored());
    for (std::size_t p = 0; p < run_.pairs.size(); ++p)
      add_rows(p, scores, i, first_scored_row(window), rows);
    if (bad) {
      bad_ = {&passage, placed.window};
      NonFiniteScore& found = run_.nonfinite.emplace();
      found.variant = bad->variant;
      found.passage = passage.name;
      found.window = static_cast<std::int64_t>(placed.window);
      found.position = window.first_scored + static_cast<std::int64_t>(bad->row);
      found.row = first_scored_row(window) + static_cast<std::int64_t>(bad->row);
      found.fed = fed_ids(passage, window);
      return false;
    }
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      const auto losses = scores.losses_of(v, i);
      variants_[v].add(passage, placed.window, losses);
      if (hooks_.on_window)
        hooks_.on_window(
            {v, placed.number, static_cast<std::int64_t>(placed.window), window.first_scored, losses});
    }
    ++run_.windows;
    run_.tokens_fed += window.tokens();
    run_.flops += scoring_flops(scorer_.variants().front().transformer->config(), window);
    return true;
  }

  std::optional<FirstNonFinite> first_nonfinite(const WindowBatchScores& scores, std::size_t i) const {
    std::optional<FirstNonFinite> found;
    const auto at = [&](std::size_t row, std::size_t variant) {
      if (!found || row < found->row) found = FirstNonFinite{row, variant};
    };
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      const auto losses = scores.losses_of(v, i);
      const auto bad =
          std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
      if (bad != losses.end()) at(static_cast<std::size_t>(bad - losses.begin()), v);
    }
    for (std::size_t p = 0; p < run_.pairs.size(); ++p) {
      const auto compared = scores.compared_of(p, i);
      const auto bad = std::find_if(compared.begin(), compared.end(),
                                    [](const LogitComparison& row) { return row.first_nonfinite >= 0; });
      if (bad == compared.end()) continue;
      // One of the two; which it is, feeding it again will tell.
      at(static_cast<std::size_t>(bad - compared.begin()), scorer_.pairs()[p].other);
    }
    return found;
  }

  void add_rows(std::size_t pair, const WindowBatchScores& scores, std::size_t i, std::int64_t first_row,
                std::size_t rows) {
    const auto compared = scores.compared_of(pair, i);
    const auto base = scores.losses_of(scorer_.pairs()[pair].base, i);
    const auto other = scores.losses_of(scorer_.pairs()[pair].other, i);
    PairScore& sums = run_.pairs[pair];
    for (std::size_t row = 0; row < rows; ++row) {
      const RowDivergence divergence = row_divergence(compared[row]);
      sums.divergence.add(first_row + static_cast<std::int64_t>(row), divergence);
      const double difference = other[row] - base[row];
      if (divergence.first_nonfinite || !std::isfinite(difference)) continue;
      sums.losses.max_diff = std::max(sums.losses.max_diff, std::fabs(difference));
      sums.losses.diffs.add(difference);
    }
  }

  WindowScorer& scorer_;
  const ScoreHooks& hooks_;
  std::vector<PerplexitySums> variants_;
  WindowOf bad_;
  ScoreRun run_;
};

std::vector<WindowOf> windows_of(const std::vector<Placed>& batch) {
  std::vector<WindowOf> windows;
  windows.reserve(batch.size());
  for (const Placed& placed : batch) windows.push_back({placed.passage.get(), placed.window});
  return windows;
}

}  // namespace

std::optional<double> LossDifference::standard_error() const {
  if (diffs.count() < 2) return std::nullopt;
  return std::sqrt(diffs.variance() / static_cast<double>(diffs.count()));
}

double scoring_flops(const ModelConfig& config, const Window& window) {
  const ForwardWork work = forward_work(config, DType::f32, 1, 0, static_cast<int>(window.tokens()));
  const double row_of_head = 2.0 * config.vocab * config.hidden;
  return work.flops() + static_cast<double>(window.scored() - 1) * row_of_head;
}

std::string NonFiniteScore::text() const {
  return fmt::format("{}: {} that predicts token {} (window {}, row {}) is not a finite number", passage,
                     place ? fmt::format("logit {}", *place) : "a logit", position, window, row);
}

ScoreRun score_run(WindowScorer& scorer, const PassageSource& passages, Estimator estimator,
                   const ScoreHooks& hooks) {
  const auto start = std::chrono::steady_clock::now();
  Sums sums(scorer, estimator, hooks);
  ScoreRun& run = sums.run();
  Batches batches(passages, static_cast<std::size_t>(scorer.room().batch));
  std::deque<std::vector<Placed>> under_way;  // keeps the passages
  bool more = true;
  while (more || !under_way.empty()) {
    if (more) {
      if (hooks.stop && hooks.stop()) {
        run.stopped = true;
        more = false;
      } else if (std::vector<Placed> batch = batches.next(run.source_error); !batch.empty()) {
        scorer.submit(windows_of(batch));
        under_way.push_back(std::move(batch));
        if (under_way.size() == 1) continue;
      } else {
        more = false;
      }
    }
    if (under_way.empty()) break;
    if (!sums.add(under_way.front(), scorer.finish())) {
      while (scorer.under_way() > 0) scorer.finish();
      sums.look_again();
      break;
    }
    under_way.pop_front();
  }
  return sums.finish(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace attn
