// Cells that double.
#include "lib/eval/loss_cells.h"

#include "lib/core/error.h"

namespace attn {
namespace {

struct Cell {
  double mean, weight;
};

// Cells may weigh nothing.
Cell merged(const Cell& a, const Cell& b) {
  const double weight = a.weight + b.weight;
  if (weight == 0) return {(a.mean + b.mean) / 2, 0};
  return {(a.weight * a.mean + b.weight * b.mean) / weight, weight};
}

}  // namespace

LossCells::LossCells(bool uniform, std::size_t most) : uniform_(uniform), most_(most) {
  if (most < 2 || most % 2 != 0) fail(ErrorKind::internal, "{} cells cannot be merged in pairs", most);
}

void LossCells::add(double loss, double weight) {
  if (in_cell_ == 0 && means_.size() == most_) merge();
  if (cell_tokens_ == 1) return push(loss, weight);
  cell_sum_ += weight * loss;
  cell_weight_ += weight;
  if (++in_cell_ < cell_tokens_) return;
  push(cell_weight_ == 0 ? loss : cell_sum_ / cell_weight_, cell_weight_);
  in_cell_ = 0;
  cell_sum_ = cell_weight_ = 0;
}

void LossCells::push(double mean, double weight) {
  means_.push_back(mean);
  if (!uniform_) weights_.push_back(weight);
}

void LossCells::merge() {
  for (std::size_t i = 0; i < most_ / 2; ++i) {
    const auto cell = [&](std::size_t at) { return Cell{means_[at], uniform_ ? 1 : weights_[at]}; };
    const Cell both = merged(cell(2 * i), cell(2 * i + 1));
    means_[i] = both.mean;
    if (!uniform_) weights_[i] = both.weight;
  }
  means_.resize(most_ / 2);
  if (!uniform_) weights_.resize(most_ / 2);
  cell_tokens_ *= 2;
}

std::size_t LossCells::memory_bytes() const {
  return (means_.capacity() + weights_.capacity()) * sizeof(double);
}

std::optional<BlockBootstrap> LossCells::bootstrap() const {
  if (in_cell_ == 0)
    return block_bootstrap(means_, weights_, kBootstrapResamples, kBootstrapSeed, cell_tokens_);
  std::vector<double> means = means_, weights = weights_;
  if (uniform_) weights.assign(means.size(), static_cast<double>(cell_tokens_));
  means.push_back(cell_weight_ == 0 ? 0 : cell_sum_ / cell_weight_);
  weights.push_back(cell_weight_);
  return block_bootstrap(means, weights, kBootstrapResamples, kBootstrapSeed, cell_tokens_);
}

}  // namespace attn
