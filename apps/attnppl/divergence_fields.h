// A divergence as an object of a record, and as a table for people.
#pragma once

#include <string>

#include "apps/attnppl/score_case.h"
#include "lib/results/value.h"

namespace attn {

// {against, against_path, positions, max_diff, ..., buckets [{seen, positions, ...}]}: docs/results.md lists
// the keys.
Fields divergence_fields(const PplVariant& against, const BucketedDivergence& divergence);

// A line for all positions and one for each bucket that has some, under a heading; each with its line end.
std::string divergence_table(const PplVariant& variant, const PplVariant& against,
                             const BucketedDivergence& divergence);

}  // namespace attn
