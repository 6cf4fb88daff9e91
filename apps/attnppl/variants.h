// Which computations one run of attnppl scores, and which of them are compared.
#pragma once

#include <string>
#include <vector>

#include "lib/eval/final_states.h"
#include "lib/eval/window_scorer.h"

namespace attn {

struct PplVariant {
  std::string mode;
  ForwardPath path = ForwardPath::prefill;
  bool reference = false;  // the run with f32 weights that judges the others

  std::string text() const;  // "flash", "flash decode", "f32 reference"
};

struct ScoringPlan {
  std::vector<PplVariant> variants;
  std::vector<VariantPair> pairs;
};

// Every mode by prefill, and by decode where that is asked for; with `reference` f32 weights with mode
// reference, last. Pairs: on each path that is asked for the first mode with each other one; of each mode
// prefill with decode; the reference with every variant.
ScoringPlan plan_scoring(const std::vector<std::string>& modes, const std::vector<ForwardPath>& paths,
                         bool reference);

}  // namespace attn
