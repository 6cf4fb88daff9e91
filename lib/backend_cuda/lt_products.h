// LtProducts: matrix products by cuBLASLt, each shape's algorithm chosen once and kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <cublasLt.h>

#include "lib/backend/ops.h"
#include "lib/backend_cuda/cuda_device.h"
#include "lib/backend_cuda/product.h"

namespace attn {

// f32 accumulation, no TF32, partial sums of split products in f32.
//
// A shape is sizes, types, steps, alignment and epilogue. The algorithm of a large one is the fastest of
// cuBLASLt's candidates, timed at its first use on the caller's operands (which keep their values); that of a
// small one, or of one first used while the stream is recorded, is the library's first candidate. A choice
// holds for the life of the object: within one process the same operands give the same bits. Another process
// may choose, and round, differently.
class LtProducts {
 public:
  // The workspace must outlive the object and serve nothing else at the same time.
  LtProducts(CudaDevice& device, void* workspace, std::size_t workspace_bytes);
  ~LtProducts();
  LtProducts(const LtProducts&) = delete;
  LtProducts& operator=(const LtProducts&) = delete;

  // False, with nothing done, where the library has no algorithm for this shape.
  bool multiply(const Product& product);

  // In the order of first use.
  std::vector<ProductRecord> choices() const;

 private:
  // Of everything that the choice of an algorithm may depend on.
  using Key = std::array<std::int64_t, 15>;

  struct Choice {
    std::size_t order = 0;
    bool exists = false;
    cublasLtMatmulAlgo_t algorithm{};
    ProductRecord record;
  };
  struct Call;  // the library's descriptors of one product

  static Key key_of(const Product& product);
  Choice choose(const Product& product, Call& call);
  // Microseconds of each candidate, infinite for one that does not run.
  std::vector<double> time_candidates(const Product& product, Call& call,
                                      const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  bool recording() const;

  CudaDevice& device_;
  void* workspace_;
  std::size_t workspace_bytes_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Choice> choices_;
  int timed_ = 0;  // shapes
};

}  // namespace attn
