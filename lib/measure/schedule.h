// The order in which the repetitions of several modes run.
#pragma once

#include <vector>

namespace attn {

enum class RunKind { cold, warmup, timed };

struct ScheduledRun {
  int mode;  // index into the caller's list of modes
  RunKind kind;
  int index;  // among the runs of this mode and kind, from 0
};

// First one cold run of each mode (reported apart: it pays for first touches and lazy set-up), then `warmup`
// rounds that are thrown away, then `reps` timed rounds. A round runs every mode once (A, B, A, B, ...), so
// that drift of clocks and temperature hits all modes alike. Throws Error{usage} if modes or reps < 1, or
// warmup < 0.
std::vector<ScheduledRun> interleave(int modes, int warmup, int reps);

}  // namespace attn
