// LossCells: the losses of a text in its order with what each weighs, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/eval/bootstrap.h"

namespace attn {

// Of so many tokens and fewer each loss is kept as it is.
inline constexpr std::size_t kBootstrapCells = std::size_t{1} << 20;

// A cell holds one token until all cells are taken; then neighbours are merged in pairs, to cells of 2, 4, 8
// ... tokens: the weighted mean of their losses and the sum of their weights.
class LossCells {
 public:
  // `uniform`: every weight is 1. `most`: even, 2 or more.
  LossCells(bool uniform, std::size_t most);

  void add(double loss, double weight);
  std::int64_t cell_tokens() const { return cell_tokens_; }
  std::size_t memory_bytes() const;
  // The block bootstrap over the cells, in blocks of whole cells.
  std::optional<BlockBootstrap> bootstrap() const;

 private:
  void push(double mean, double weight);
  void merge();

  bool uniform_;
  std::size_t most_;
  std::int64_t cell_tokens_ = 1;
  std::vector<double> means_, weights_;  // of whole cells; no weights where all are the same
  // The last cell, which is not whole yet.
  std::int64_t in_cell_ = 0;
  double cell_sum_ = 0, cell_weight_ = 0;
};

}  // namespace attn
