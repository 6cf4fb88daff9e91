// Measuring one case: every mode alone for its memory, then all modes in turns for their times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/attnbench/cases.h"
#include "apps/memory_fields.h"
#include "lib/backend/out_of_memory.h"
#include "lib/measure/sensor_log.h"
#include "lib/model/generate.h"

namespace attn {

// How the prompt was given to a device that records, and the medians by which that was chosen.
struct PrefillChoice {
  PrefillLaunch launch;
  double stream_ms, graph_ms;
};

struct ModeResult {
  std::string mode;
  std::string prefill_kernel, decode_kernel;  // the rows that ran; no decode for one new token
  Generation cold;                            // the first run of this mode and case, kept apart
  std::optional<PrefillChoice> prefill;       // of the timed repetitions
  std::vector<std::vector<double>> token_ms;  // of each timed repetition
  std::vector<SensorWindow> windows;          // of each timed repetition, where there are sensors
  MemoryReport memory;
  std::string failure;  // empty: it ran; else why not
  ErrorKind failure_kind = ErrorKind::internal;
  std::optional<MemoryRequest> refused;  // of a failure for want of memory, where its size is known
  bool finite = true;                    // the last logits

  bool ok() const { return failure.empty() && finite; }
};

struct CaseResult {
  std::vector<ModeResult> modes;
  bool interrupted = false;  // by SIGINT: some repetitions are missing
};

// `step` is called before each run of a mode with a description. A mode that cannot run, or for which the
// memory does not suffice, is reported in its result and the others go on; where that shows only while the
// modes are timed in turns, the others are timed anew without it. Whatever happens, no memory stays taken.
// `sensors` (may be null) watch each timed repetition in a window of its own.
CaseResult measure_case(Platform& platform, const Model& model, const BenchCase& bench_case,
                        const BenchOptions& options, SensorLog* sensors,
                        const std::function<void(const std::string&)>& step);

// Every mode of the case failed with this error.
CaseResult failed_case(const BenchOptions& options, const Error& error);

// Runs of a mode in measure_case(), for progress.
int runs_of_case(const BenchOptions& options);

}  // namespace attn
