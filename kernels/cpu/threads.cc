// Thread counts of OpenMP and OpenBLAS; the core type of OpenBLAS.
#include "kernels/cpu/threads.h"

#include <cstdlib>
#include <string_view>

#include <cblas.h>
#include <omp.h>

// Exported by OpenBLAS built with DYNAMIC_ARCH, but in no header: forget the chosen core, and choose.
extern "C" {
void gotoblas_dynamic_quit() __attribute__((weak));
void gotoblas_dynamic_init() __attribute__((weak));
}

namespace attn::cpu {

namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// OpenBLAS's name of the best kernels that this processor can run, or null before AVX2.
const char* best_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

bool without_avx(std::string_view core) {
  for (const char* old :
       {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Atom", "Core2", "Penryn", "Dunnington",
        "Nehalem", "Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"}) {
    if (core == old) return true;
  }
  return false;
}

}  // namespace

void correct_blas_core() {
  const char* core = best_core();
  if (core == nullptr || std::getenv(kCoreVariable) != nullptr || !without_avx(openblas_get_corename()))
    return;
  if (gotoblas_dynamic_quit == nullptr || gotoblas_dynamic_init == nullptr) return;
  setenv(kCoreVariable, core, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kCoreVariable);
}

void set_threads(int threads) {
  const int count = threads > 0 ? threads : omp_get_num_procs();
  openblas_set_num_threads(count);
  omp_set_num_threads(count);
}

int threads() { return omp_get_max_threads(); }

std::string blas_description() {
  std::string text = openblas_get_config();
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

SingleThreadedBlas::SingleThreadedBlas() {
  constexpr int kOwnThreads = 1;  // openblas_get_parallel(): 0 sequential, 1 pthreads, 2 OpenMP
  if (openblas_get_parallel() != kOwnThreads) return;
  before_ = openblas_get_num_threads();
  openblas_set_num_threads(1);
}

SingleThreadedBlas::~SingleThreadedBlas() {
  if (before_ > 0) openblas_set_num_threads(before_);
}

}  // namespace attn::cpu
