// How many threads the kernels and the matrix-product library use, and which of its kernels that library
// runs.
#pragma once

#include <string>

namespace attn::cpu {

// For OpenMP and OpenBLAS alike, process-wide. 0: one for each core this process may run on.
void set_threads(int threads);
int threads();

// OpenBLAS 0.3.21 (Debian 12) takes processors newer than itself, Emerald Rapids for one, for a Prescott of
// 2004 and runs SSE3 kernels, 5 to 10 times slower than the AVX-512 ones it has. Where the library chose a
// core without AVX on a processor with AVX2, its choice is made anew. OPENBLAS_CORETYPE, when set, is
// respected. Before the first product.
void correct_blas_core();

// Name, version, build options and core of the matrix-product library.
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
