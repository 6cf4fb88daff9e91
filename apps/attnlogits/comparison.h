// The comparison of modes on one prompt, and the judging of it.
#pragma once

#include <functional>
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
};

// The ways in which a prompt is computed: the modes, then reference if it was not among them and the device
// has it, by `path`; with path decode each by prefill too.
std::vector<LogitsVariant> plan_variants(const std::vector<std::string>& modes, ForwardPath path,
                                         bool has_reference);

// What is compared: on `path` every mode with reference, and every other mode with the first; with path
// decode also each mode's decode with its own prefill.
std::vector<LogitsPair> plan_pairs(const std::vector<LogitsVariant>& variants, ForwardPath path);

// Fills the pairs' divergences over all positions, in blocks of rows so that memory does not grow with the
// prompt times the vocabulary. `stop` is asked before each block; true leaves the rest out.
void compare_variants(Transformer& transformer, const std::vector<LogitsVariant>& variants,
                      std::vector<LogitsPair>& pairs, const std::function<bool()>& stop = {});

// The logits of rows of hidden states, on the host: [rows * vocab].
std::vector<float> host_logits(Transformer& transformer, const TensorView& states);

// A sentence for each threshold that the divergence exceeds, and for logits that are not finite.
std::vector<std::string> complaints(const Divergence& divergence, const LogitsThresholds& thresholds);

}  // namespace attn
