// Mode baseline on a GPU: Q K^T by cuBLAS into a score matrix in f32, one fused mask and softmax kernel, P V
// by cuBLAS with P in the tensors' type where the scores lay.
#include <algorithm>
#include <utility>

#include "kernels/cuda/attention_pointers.h"
#include "kernels/cuda/masked_softmax.h"
#include "lib/backend/attention_inputs.h"
#include "lib/backend_cuda/cuda_attention.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"

namespace attn {

namespace {

// Score rows begin at multiples of 32 bytes.
constexpr std::int64_t kScoreStepUnit = 8;

std::int64_t score_step(const AttentionProblem& p) {
  return (std::int64_t{p.kv_len} + kScoreStepUnit - 1) / kScoreStepUnit * kScoreStepUnit;
}

// Heads of a group share a key head without a copy of it: either a call for each (sequence, member of the
// group), strided over key heads, or one call with a pointer a matrix. Calls cost launches, which matter for
// few queries; pointers cost cuBLAS its best kernels, which matters for many.
bool by_pointers(const AttentionProblem& p) {
  constexpr int kManyQueries = 64;
  return p.q_len < kManyQueries && std::int64_t{p.batch} * (p.q_heads / p.kv_heads) > 1;
}

class BaselineAttention : public AttentionBackend {
 public:
  BaselineAttention(CudaDevice& device, std::shared_ptr<Cublas> cublas)
      : device_(device), cublas_(std::move(cublas)) {}

  std::string_view name() const override { return "baseline"; }

  std::vector<KernelRow> kernels() const override {
    return {{kStrided, "any", "f32, f16, bf16",
             "cuBLAS strided products around a fused mask and softmax; scores in f32"},
            {kPointers, "any", "f32, f16, bf16",
             "the same by one batched product each, for few queries of many sequences or grouped heads"}};
  }

  std::optional<std::string> why_not(const AttentionProblem&) const override { return std::nullopt; }

  std::string kernel_for(const AttentionProblem& problem) const override {
    return by_pointers(problem) ? kPointers : kStrided;
  }

  AttentionScratch scratch(const AttentionProblem& p) const override {
    const auto matrices = static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.q_heads);
    const std::size_t row_bytes = static_cast<std::size_t>(score_step(p)) * sizeof(float);
    return {matrices * static_cast<std::size_t>(p.q_len) * row_bytes,
            by_pointers(p) ? matrices * cuda::kPointerArrays * sizeof(void*) : 0};
  }

  // The products' sizes are fixed in a recording, so it serves a range of lengths.
  int recorded_keys(int kv_len, int capacity) const override {
    constexpr int kRange = 256;
    return std::min((kv_len + kRange - 1) / kRange * kRange, capacity);
  }

  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
               void* workspace) override {
    const AttentionParams params = attention_params(problem, tensors);
    auto* matrix = static_cast<float*>(scores);
    const std::int64_t step = score_step(problem);
    const std::int64_t apart = step * problem.q_len;
    auto** pointers = static_cast<void**>(workspace);
    const std::int64_t count = std::int64_t{problem.batch} * problem.q_heads;
    const bool pointed = by_pointers(problem);
    if (pointed) ATTN_CUDA(cuda::attention_pointers(params, matrix, apart, pointers, device_.stream()));

    Product product{};
    product.rows = params.q_len;
    product.columns = params.kv_len;
    product.inner = params.head_dim;
    product.in_step = params.q_stride.token;
    product.other_step = params.k_stride.token;
    product.out_step = step;
    product.dtype = params.dtype;
    product.out_dtype = DType::f32;
    product.alpha = params.scale;
    if (pointed) {
      cublas_->multiply_pointers(product, pointers, pointers + count, pointers + 3 * count, count);
    } else {
      for_groups(params, [&](std::int64_t b, std::int64_t member, std::int64_t group) {
        product.in = place(params.q, params.q_stride, b, member, params.dtype);
        product.other = place(params.k, params.k_stride, b, 0, params.dtype);
        product.out = matrix + (b * params.q_heads + member) * apart;
        cublas_->multiply_strided(product, group * params.q_stride.head, params.k_stride.head, group * apart,
                                  params.kv_heads);
      });
    }

    ATTN_CUDA(cuda::masked_softmax({matrix, step, count * problem.q_len, problem.q_len, problem.kv_len,
                                    problem.causal, problem.dtype, params.lse},
                                   device_.stream()));

    const std::int64_t per_float = problem.dtype == DType::f32 ? 1 : 2;  // elements where one f32 score lay
    product.columns = params.head_dim;
    product.inner = params.kv_len;
    product.in_step = step * per_float;
    product.other_step = params.v_stride.token;
    product.other_transposed = true;
    product.out_step = params.out_stride.token;
    product.out_dtype = params.dtype;
    product.alpha = 1;
    if (pointed) {
      cublas_->multiply_pointers(product, pointers + 3 * count, pointers + 2 * count, pointers + 4 * count,
                                 count);
    } else {
      for_groups(params, [&](std::int64_t b, std::int64_t member, std::int64_t group) {
        product.in = matrix + (b * params.q_heads + member) * apart;
        product.other = place(params.v, params.v_stride, b, 0, params.dtype);
        product.out = const_cast<void*>(place(params.out, params.out_stride, b, member, params.dtype));
        cublas_->multiply_strided(product, group * apart * per_float, params.v_stride.head,
                                  group * params.out_stride.head, params.kv_heads);
      });
    }
  }

 private:
  static constexpr const char* kStrided = "cuda_baseline_strided";
  static constexpr const char* kPointers = "cuda_baseline_pointers";

  static const void* place(const void* base, const AttentionStrides& stride, std::int64_t b,
                           std::int64_t head, DType dtype) {
    return static_cast<const char*>(base) +
           (b * stride.batch + head * stride.head) * static_cast<std::int64_t>(size_of(dtype));
  }

  template <typename Body>
  static void for_groups(const AttentionParams& params, const Body& body) {
    const std::int64_t group = params.q_heads / params.kv_heads;
    for (std::int64_t b = 0; b < params.batch; ++b) {
      for (std::int64_t member = 0; member < group; ++member) body(b, member, group);
    }
  }

  CudaDevice& device_;
  std::shared_ptr<Cublas> cublas_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_baseline_attention(CudaDevice& device,
                                                          std::shared_ptr<Cublas> cublas) {
  return std::make_unique<BaselineAttention>(device, std::move(cublas));
}

}  // namespace attn
