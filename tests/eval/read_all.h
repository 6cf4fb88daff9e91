// All passages of a reader at once, with its settings and totals, for tests.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "lib/eval/loss_sums.h"
#include "lib/eval/passage_reader.h"
#include "lib/eval/score_run.h"

namespace attn {

struct ReadPlan : ProtocolSettings, ReadTotals {
  std::vector<Passage> passages;
};

inline ReadPlan read_all(Protocol protocol, TextSource texts, const Tokenizer& tokenizer,
                         const PlanOptions& options) {
  PassageReader reader(protocol, std::move(texts), tokenizer, options);
  ReadPlan plan;
  while (auto passage = reader.next()) plan.passages.push_back(std::move(*passage));
  static_cast<ProtocolSettings&>(plan) = reader.settings();
  static_cast<ReadTotals&>(plan) = reader.totals();
  return plan;
}

inline PassageSource source_of(std::vector<Passage> passages) {
  return [passages = std::move(passages), next = std::size_t{0}]() mutable -> std::optional<Passage> {
    if (next == passages.size()) return std::nullopt;
    return passages[next++];
  };
}

// The losses of a window's scored ids, valid until the next call.
using LossSource = std::function<std::span<const double>(const Passage&, const Window&)>;

// At most `most_windows` windows.
inline PerplexityResult sum_losses(std::span<const Passage> passages, Estimator estimator,
                                   const LossSource& losses, std::size_t most_windows = SIZE_MAX,
                                   std::size_t most_cells = kBootstrapCells) {
  PerplexitySums sums(estimator, most_cells);
  for (const Passage& passage : passages) {
    for (std::size_t window = 0; window < passage.windows.size(); ++window) {
      if (most_windows-- == 0) return sums.result(true);
      sums.add(passage, window, losses(passage, passage.windows[window]));
    }
  }
  return sums.result(false);
}

}  // namespace attn
