// One case scored by all variants in one run over its text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/attnppl/case_text.h"
#include "apps/attnppl/variants.h"
#include "apps/memory_fields.h"
#include "lib/core/error.h"
#include "lib/eval/score_run.h"
#include "lib/model/model.h"

namespace attn {

struct PplVariantResult {
  PplVariant variant;
  std::string kernel;  // of the longest window
  PerplexityResult score;
  double seconds = 0;
  std::string failure;  // empty: it ran; else why not
  ErrorKind failure_kind = ErrorKind::internal;

  bool ran() const { return failure.empty(); }
  bool ok() const { return ran() && !score.nonfinite && score.perplexity.has_value(); }
};

struct PplPairResult {
  std::size_t base = 0, other = 0;  // places in PplCaseResult::variants
  PairScore score;
};

struct PplCaseResult {
  TextFacts text;
  std::vector<PplVariantResult> variants;  // as they were planned
  std::vector<PplPairResult> pairs;        // of variants that ran
  int batch = 1;
  std::int64_t longest = 0;  // tokens of the longest window that was fed
  double seconds = 0, compared_seconds = 0;
  MemoryReport memory;  // of all variants together
  bool stopped = false;
  std::optional<NonFiniteScore> nonfinite;  // its variant is a place in `variants`
  std::optional<Error> source_error;

  bool complete() const { return !stopped && !nonfinite && !source_error; }
  bool any_ran() const;
};

struct ScoringModels {
  const Model* model = nullptr;
  const Model* reference = nullptr;  // f32 weights of the same model, where a variant is the reference
};

// `batch_size`: windows at a time; nothing: as many as hold about 8192 tokens on a GPU, fewer where memory
// does not allow it, and one on the CPU. A variant that is unsupported or has no memory fails alone, the
// others go on.
PplCaseResult score_case(Platform& platform, const ScoringModels& models, const PplCase& ppl_case,
                         const ScoringPlan& plan, std::optional<int> batch_size, CaseText& text,
                         const ScoreHooks& hooks);

}  // namespace attn
