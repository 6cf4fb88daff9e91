// One case scored by all variants in one run over its text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/attnppl/case_text.h"
#include "apps/attnppl/health.h"
#include "apps/attnppl/variants.h"
#include "apps/memory_fields.h"
#include "lib/core/error.h"
#include "lib/eval/accuracy_rule.h"
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
  std::optional<RuleOutcome> rule;     // against the f32 reference, where there is one
  std::optional<HealthReport> health;  // of the first windows, where that was asked for

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
  double flops = 0;     // of each variant: scoring_flops() of all windows
  MemoryReport memory;  // of all variants together
  bool stopped = false;
  std::optional<NonFiniteScore> nonfinite;       // its variant is a place in `variants`
  std::optional<HealthReport> nonfinite_health;  // its window, seen from the inside
  std::optional<Error> source_error;
  bool published_words = false;  // word perplexities are over PG-19's published words

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

// Takes PG-19's published number of words for the words scored, where the texts have one and all of them were
// scored as they are, by protocol full. A note that says so, or why not; nothing where there is none.
std::optional<std::string> count_published_words(PplCaseResult& result, const PplCase& ppl_case);

}  // namespace attn
