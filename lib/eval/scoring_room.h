// ScoringRoom: the sizes that scoring needs memory for, and the bytes that they come to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/eval/final_states.h"
#include "lib/model/transformer.h"

namespace attn {

// What a scorer has room for.
struct ScoringRoom {
  int batch = 1;        // windows at a time
  int tokens = 0;       // fed in the longest window
  int logits_rows = 1;  // rows of logits at a time, whatever the context is; a multiple of `step`
  // Sequences are filled up to a multiple of so many tokens (but not beyond `tokens`), and products of the
  // head to so many rows, so that a device which chooses an algorithm for each shape meets few of them.
  int step = 1;

  // As many tokens as the context has and a learned position table allows. On a GPU a step of 64 and up to
  // kLogitsBytes of logits; on the host kHostLogitsRows.
  static ScoringRoom of(const Device& device, const ModelConfig& config, int batch, std::int64_t context);
  RunShape shape(int sequences) const { return {sequences, tokens, tokens, logits_rows}; }
  // Room on the device for hidden states, losses and comparisons of a batch, and for the ids of whole groups
  // of sequences that are fed together.
  std::int64_t rows() const { return static_cast<std::int64_t>(batch) * tokens + step - 1; }
  std::int64_t ids(int sequences) const;
  // Of the one upload of a batch: ids, ids by token where a variant decodes, targets; i32.
  std::size_t input_bytes(int sequences, bool decodes) const;
  // The calls of Transformer::forward() that a path may make, longest first.
  std::vector<Reservation> calls(ForwardPath path) const;
};
inline constexpr std::int64_t kLogitsBytes = std::int64_t{256} << 20;
inline constexpr int kHostLogitsRows = 128;

// Takes scratch for all calls of a path, of as many sequences as the transformer's batch and of fewer (which
// may need more, where work is split to fill a device). Throws what Transformer::reserve throws.
void reserve_scoring(Transformer& transformer, const AttentionBackend& attention, ForwardPath path,
                     const ScoringRoom& room);

// A variant that is not there yet.
struct PlannedVariant {
  const AttentionBackend* attention = nullptr;
  ForwardPath path = ForwardPath::prefill;
};
// Bytes by purpose of one transformer with these variants, weights included, and of a scorer of them.
BytesByUse predict_scoring_memory(const ModelConfig& config, DType dtype, const ScoringRoom& room,
                                  int sequences, std::span<const PlannedVariant> variants, std::size_t pairs);

}  // namespace attn
