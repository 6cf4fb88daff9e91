// WindowScorer: batches of windows through several variants of a computation in one pass: losses of each, and
// comparisons of pairs, computed on the device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lib/backend/logit_comparison.h"
#include "lib/eval/final_states.h"
#include "lib/eval/passage.h"
#include "lib/eval/scoring_room.h"

namespace attn {

// One way to compute logits. Variants may share a transformer; one of other weights or another type (the f32
// reference of a 16-bit run) has its own, on the same device and of the same vocabulary. All have a shape of
// ScoringRoom::shape() with the same number of sequences: so many windows are fed together.
struct ScoredVariant {
  Transformer* transformer = nullptr;
  AttentionBackend* attention = nullptr;
  ForwardPath path = ForwardPath::prefill;
};

// Places in the list of variants: q of `other` against p of `base`.
struct VariantPair {
  std::size_t base = 0, other = 0;
};

// A window of a passage, both of which the caller keeps until its batch is finished.
struct WindowOf {
  const Passage* passage = nullptr;
  std::size_t window = 0;
};

struct NonFiniteLogit {
  std::size_t variant = 0;
  std::int64_t row = 0;    // of the window, from 0
  std::int64_t place = 0;  // of the vocabulary
};

// What a batch came to. Rows: all scored tokens of its windows, end to end.
struct WindowBatchScores {
  std::vector<std::int64_t> first_row;      // of each window, and the number of rows behind the last
  std::vector<std::vector<double>> losses;  // [variant][row], nats
  std::vector<std::vector<LogitComparison>> compared;  // [pair][row]
  std::vector<double> variant_ms;  // of the device, each variant's passes, logits and losses
  double compared_ms = 0;

  std::span<const double> losses_of(std::size_t variant, std::size_t window) const;
  std::span<const LogitComparison> compared_of(std::size_t pair, std::size_t window) const;
};

// Two batches may be under way: submit() gives work to the device and does not wait for it, so that the host
// prepares the next batch meanwhile. Memory on the device does not grow with the text, nor with vocabulary
// times context: of each variant the final hidden states of a batch's scored rows, [batch * tokens, hidden],
// and blocks of logits_rows rows of logits. What stands after a token does not change it, so shorter windows
// are filled up at the end with id 0.
//
// Blocks of rows do not reach from one group of windows that are fed together to another. So with
// transformers of batch 1 each window is computed as if it were alone, bit for bit, whatever the batch is.
class WindowScorer {
 public:
  // Throws Error{internal} for pairs and transformers that do not fit together, and what
  // Transformer::reserve throws. `pairs` may be empty.
  WindowScorer(std::vector<ScoredVariant> variants, std::vector<VariantPair> pairs, ScoringRoom room);
  ~WindowScorer();
  WindowScorer(const WindowScorer&) = delete;
  WindowScorer& operator=(const WindowScorer&) = delete;

  const ScoringRoom& room() const { return room_; }
  std::span<const ScoredVariant> variants() const { return variants_; }
  std::span<const VariantPair> pairs() const { return pairs_; }
  std::size_t under_way() const { return under_way_; }
  // The most tokens that a window had so far.
  std::int64_t longest() const { return longest_; }

  // Gives a batch of at most room().batch windows to the device. At most two may be under way. Throws
  // Error{bad_input}: a window of more than room().tokens; Error{internal}: a target outside the vocabulary.
  void submit(std::span<const WindowOf> windows);
  // Waits for the earliest batch under way; valid until the next submit().
  const WindowBatchScores& finish();

  // Feeds one window again, alone, with nothing under way, and looks at all its logits of scored rows on the
  // host: the first row with one that is not finite, of the first such variant.
  std::optional<NonFiniteLogit> first_nonfinite(const WindowOf& window);

 private:
  // Windows that are fed together, and where they stand in the batch.
  struct Group {
    std::int64_t first_window, windows;
    std::int64_t sequences;  // `windows`, or more of which nothing is scored
    std::int64_t tokens;     // of each sequence, filled up
    std::int64_t first_id;   // of the batch's ids: [window, token] here, [token, window] for decode
    std::int64_t first_row, rows;
  };
  struct Batch;  // under way

  std::int64_t row_room() const { return room_.rows(); }
  std::int64_t id_room() const { return room_.ids(together_); }
  void upload(Batch& batch, std::span<const WindowOf> windows);
  void write_input(const Batch& batch, std::span<const WindowOf> windows, std::int32_t* input) const;
  // Leaves the hidden states of scored rows in the variant's states.
  void feed(std::size_t variant, const Batch& batch);
  void feed_tokens(std::size_t variant, const Batch& batch, const Group& group);
  const TensorView& states_of(std::size_t variant) const;
  TensorView logits_of(std::size_t variant, std::int64_t first_row, std::int64_t rows);
  void add_losses(std::size_t variant, const TensorView& logits, std::int64_t first_row);
  template <typename Body>
  void over_blocks(const Batch& batch, const Body& body) const;

  std::vector<ScoredVariant> variants_;
  std::vector<VariantPair> pairs_;
  ScoringRoom room_;
  int together_ = 1;
  bool decodes_ = false;
  TokenId vocab_ = 0;
  Device* device_ = nullptr;
  // On the device. Batches are worked on one after the other, so one of each serves both that are under way.
  Buffer input_;                    // i32: ids, ids by token where a variant decodes, targets
  std::vector<Tensor> states_;      // [variant] where there are pairs, else one: [rows, hidden]
  std::vector<Tensor> own_logits_;  // [variant]: [logits_rows, vocab], or none: the transformer's
  Buffer losses_;                   // [variant, rows] f64
  Buffer compared_;                 // [pair, rows] LogitComparison
  std::array<std::unique_ptr<Batch>, 2> batches_;
  std::size_t oldest_ = 0, under_way_ = 0;
  std::int64_t longest_ = 0;
  std::set<std::int64_t> full_groups_;  // tokens of groups of together_ windows that were fed
};

}  // namespace attn
