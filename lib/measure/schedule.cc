// Interleaving, round by round.
#include "lib/measure/schedule.h"

#include "lib/core/error.h"

namespace attn {

std::vector<ScheduledRun> interleave(int modes, int warmup, int reps) {
  if (modes < 1) fail(ErrorKind::usage, "there is no mode to measure");
  if (warmup < 0) fail(ErrorKind::usage, "warmup is {}; it must be 0 or more", warmup);
  if (reps < 1) fail(ErrorKind::usage, "reps is {}; at least 1 repetition is needed", reps);
  std::vector<ScheduledRun> runs;
  const auto add_rounds = [&](RunKind kind, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int mode = 0; mode < modes; ++mode) runs.push_back({mode, kind, round});
    }
  };
  add_rounds(RunKind::cold, 1);
  add_rounds(RunKind::warmup, warmup);
  add_rounds(RunKind::timed, reps);
  return runs;
}

}  // namespace attn
