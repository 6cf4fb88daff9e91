// The result record of a variant of a case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/attnppl/score_case.h"
#include "lib/measure/roofline.h"
#include "lib/results/record.h"

namespace attn {

// How far a variant is from another one, over the tokens that both scored.
struct ModeDifference {
  std::size_t against = 0;                     // place in PplCaseResult::variants
  double log_ppl_diff = 0;                     // |ln ppl - ln ppl of the other|, of the protocol's estimator
  double max_loss_diff = 0;                    // largest difference of one token's losses, nats
  double mean_loss_diff = 0;                   // mean of loss - other loss: ln of the ratio of perplexities
  std::optional<double> mean_loss_diff_error;  // its standard error, tokens paired: sqrt(s^2 / n)
};
// From the variant that it is compared with first, the f32 reference aside. Nothing unless both are ok and
// the run is complete.
std::optional<ModeDifference> difference(const PplCaseResult& result, std::size_t variant);

struct PplRunFacts {
  Fields environment;
  std::optional<Ceilings> ceilings;  // where they were asked for
  std::vector<std::string> notes;    // flags without effect, warnings
};

ResultRecord make_record(const PplOptions& options, const Platform& platform, const Model& model,
                         const PplCase& ppl_case, const PplCaseResult& result, std::size_t variant,
                         const PplRunFacts& facts);

// System B's object for a mode: {ppl, avg_loss, num_samples}, or of its windows {ppl, avg_loss, num_tokens,
// seq_len}.
Fields system_b_fields(const PplCase& ppl_case, const PplCaseResult& result, std::size_t variant);

}  // namespace attn
