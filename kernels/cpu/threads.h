// How many threads the kernels and the matrix-product library use.
#pragma once

#include <string>

namespace attn::cpu {

// For OpenMP and OpenBLAS alike, process-wide. 0: one for each core this process may run on.
void set_threads(int threads);
int threads();

// Name, version and build options of the matrix-product library.
std::string blas_description();

// While it lives, products that OpenMP threads call run on the calling thread alone. OpenBLAS built with
// OpenMP sees to that itself; built with its own threads it must be told, or the callers would fight over one
// pool.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

 private:
  int before_ = 0;  // 0: nothing to restore
};

}  // namespace attn::cpu
