// Which data set is scored under which protocol, with which options.
#pragma once

#include <vector>

#include "apps/attnppl/dataset.h"
#include "apps/attnppl/options.h"
#include "lib/model/config.h"

namespace attn {

// One data set under one protocol: what is scored by every variant in one run.
struct PplCase {
  Dataset dataset;
  Protocol protocol = Protocol::full;
  PlanOptions plan_options;
  std::int64_t max_samples = 0;  // as recorded; 0: no limit
};

bool is_legacy(Protocol protocol);

// The protocols asked for. Beside a legacy one always stands the full protocol on the same texts. `config`:
// of the model, where it is known. Throws what find_dataset() and check_plan_options() do.
std::vector<PplCase> make_cases(const PplOptions& options, const ModelConfig* config);

}  // namespace attn
