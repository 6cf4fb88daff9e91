// Attention alone: random tensors, the error against `reference`, then times of every mode in turns.
#pragma once

#include <vector>

#include "apps/attnbench/options.h"
#include "lib/results/record.h"

namespace attn {

struct OpError {
  double max_abs = 0;     // largest |out - reference| over the rows that were compared
  double relative = 0;    // ||out - reference|| / ||reference|| over them
  std::int64_t rows = 0;  // query rows that were compared, over all batches and heads
  bool finite = true;
};

struct OpModeResult {
  std::string mode;
  std::string kernel;
  std::string failure;  // empty: it ran
  ErrorKind failure_kind = ErrorKind::internal;
  OpError error;
  std::vector<double> time_ms;
  std::size_t scores_bytes = 0, workspace_bytes = 0;
};

// The product of the option's lists. Throws Error{usage} for a size out of range.
std::vector<AttentionProblem> op_problems(const OpOptions& options, DType dtype);

std::vector<OpModeResult> measure_op(Platform& platform, const AttentionProblem& problem,
                                     const OpOptions& options);

}  // namespace attn
