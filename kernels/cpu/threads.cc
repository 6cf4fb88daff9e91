// Thread counts of OpenMP and OpenBLAS.
#include "kernels/cpu/threads.h"

#include <cblas.h>
#include <omp.h>

namespace attn::cpu {

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
