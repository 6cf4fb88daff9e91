// The comparison of modes on prompts, and the judging of it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/attnlogits/options.h"
#include "lib/eval/divergence.h"
#include "lib/eval/final_states.h"

namespace attn {

// One way to compute a prompt's logits, with the final hidden states [tokens, hidden] it gave.
struct LogitsVariant {
  std::string mode;
  ForwardPath path = ForwardPath::prefill;
  std::string kernel;  // of the longest call
  Tensor states;

  std::string text() const;  // "flash", "flash decode"
};

struct LogitsPair {
  std::size_t base = 0, other = 0;  // of the variants; KL(base || other)
  Divergence divergence;
  std::optional<std::int64_t> first_top1_change;  // the first position with another largest logit

  // Rows in the order of their positions.
  void add(std::int64_t position, const LogitComparison& row);
};

// The ways in which a prompt is computed: the modes, then reference if `with_reference` and it was not among
// them, by `path`; with path decode each by prefill too.
std::vector<LogitsVariant> plan_variants(const std::vector<std::string>& modes, ForwardPath path,
                                         bool with_reference);

// What is compared: on `path` every mode with reference, and every other mode with the first; with path
// decode also each mode's decode with its own prefill.
std::vector<LogitsPair> plan_pairs(const std::vector<LogitsVariant>& variants, ForwardPath path);

// Compares prompt after prompt on the device, in blocks of rows so that memory does not grow with the prompt
// times the vocabulary; nothing but the figures of each row comes to the host.
class LogitsComparison {
 public:
  // The transformer must outlive it; `variants` and `pairs`: of every prompt.
  LogitsComparison(Transformer& transformer, std::size_t variants, std::size_t pairs);

  // Fills the pairs of one prompt over all its positions, and adds to those of all prompts. `stop` is asked
  // before each block; true leaves the rest out.
  void add(std::span<const TokenId> ids, const std::vector<LogitsVariant>& variants,
           std::vector<LogitsPair>& pairs, std::vector<LogitsPair>& totals,
           const std::function<bool()>& stop = {});

 private:
  Transformer& transformer_;
  Tensor logits_;   // [variant and row of a block, vocab] f32
  Tensor targets_;  // [row of a block] i32: the token that follows; -1 after the last
  Buffer room_;     // LogitComparison [pair, row of a block]
};

// The logits of rows of hidden states, on the host: [rows * vocab].
std::vector<float> host_logits(Transformer& transformer, const TensorView& states);

// A sentence for each threshold that the divergence exceeds, and for logits that are not finite.
std::vector<std::string> complaints(const Divergence& divergence, const LogitsThresholds& thresholds);

}  // namespace attn
