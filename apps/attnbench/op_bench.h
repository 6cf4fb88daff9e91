// Attention alone: random tensors, the error against `reference`, then times of every mode in turns.
#pragma once

#include <vector>

#include "apps/attnbench/options.h"
#include "lib/backend/out_of_memory.h"
#include "lib/measure/roofline.h"
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
  std::optional<MemoryRequest> refused;  // of a failure for want of memory, where its size is known
  OpError error;
  int calls = 1;   // of the kernel in one sample, back to back, so that a sample takes 1 ms at least
  int copies = 1;  // of all tensors, used in turn
  std::vector<double> time_ms;  // of one call
  std::size_t scores_bytes = 0, workspace_bytes = 0;
};

// The product of the option's lists. Throws Error{usage} for a size out of range.
std::vector<AttentionProblem> op_problems(const OpOptions& options, DType dtype);

std::vector<OpModeResult> measure_op(Platform& platform, const AttentionProblem& problem,
                                     const OpOptions& options, const Ceilings& ceilings);

}  // namespace attn
