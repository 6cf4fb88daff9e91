// What attnppl measures of one protocol in one mode, and its result record.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/attnppl/dataset.h"
#include "apps/memory_fields.h"
#include "lib/core/error.h"
#include "lib/eval/perplexity.h"
#include "lib/eval/protocols.h"
#include "lib/results/record.h"

namespace attn {

// One data set under one protocol: what is scored in every mode.
struct PplCase {
  Dataset dataset;
  Protocol protocol = Protocol::full;
  PlanOptions plan_options;
  std::int64_t max_samples = 0;  // as recorded; 0: no limit
  EvalPlan plan;
  std::string dataset_sha256;
};

bool is_legacy(Protocol protocol);

struct PplModeResult {
  std::string mode, kernel;  // the kernel of the longest window
  PerplexityResult score;
  double seconds = 0;
  MemoryReport memory;
  std::string failure;  // empty: it ran; else why not
  ErrorKind failure_kind = ErrorKind::internal;
  std::vector<double> losses;  // of every scored token in order, to be compared with another mode's

  bool ok() const { return failure.empty() && !score.nonfinite && score.perplexity.has_value(); }
};

// How far a mode is from the first one, over the tokens that both scored.
struct ModeDifference {
  std::string against;
  double log_ppl_diff = 0;                     // |ln ppl - ln ppl of the other|, of the protocol's estimator
  double max_loss_diff = 0;                    // largest difference of one token's losses, nats
  double mean_loss_diff = 0;                   // mean of loss - other loss: ln of the ratio of perplexities
  std::optional<double> mean_loss_diff_error;  // its standard error, tokens paired: sqrt(s^2 / n)
};
// Nothing unless both are ok and complete.
std::optional<ModeDifference> difference(const PplModeResult& mode, const PplModeResult& first);

struct PplRunFacts {
  Fields environment;
  std::vector<std::string> notes;  // flags without effect, warnings
};

ResultRecord make_record(const PplOptions& options, const Platform& platform, const Model& model,
                         const PplCase& ppl_case, const PplModeResult& result,
                         const std::optional<ModeDifference>& difference, const PplRunFacts& facts);

// System B's object for a mode: {ppl, avg_loss, num_samples}, or of its windows {ppl, avg_loss, num_tokens,
// seq_len}.
Fields system_b_fields(const PplCase& ppl_case, const PplModeResult& result);

}  // namespace attn
