// A second start with the waiting time in the environment.
#include "apps/short_waits.h"

#include <cstdlib>

#include <unistd.h>

namespace attn {

void short_waits(char** argv) {
  constexpr const char* kSpins = "20000";  // each a pause instruction of 40 to 140 cycles
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", kSpins, 0) == 0) execv("/proc/self/exe", argv);
}

}  // namespace attn
