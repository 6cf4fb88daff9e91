// Mode baseline on a GPU: Q K^T by cuBLAS into a score matrix, one fused mask and softmax kernel, P V by
// cuBLAS with P in the tensors' type where the scores lay.
#include <algorithm>
#include <utility>

#include "kernels/cuda/attention_pointers.h"
#include "kernels/cuda/masked_softmax.h"
#include "lib/backend/attention_inputs.h"
#include "lib/backend_cuda/cuda_attention.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

namespace {

// In elements of the scores.
std::int64_t score_step(const AttentionProblem& p, DType scores) {
  const std::int64_t unit = cuda::kScoreRowBytes / static_cast<std::int64_t>(size_of(scores));
  return (std::int64_t{p.kv_len} + unit - 1) / unit * unit;
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
  BaselineAttention(CudaDevice& device, std::shared_ptr<Cublas> cublas, BaselineScores scores)
      : device_(device), cublas_(std::move(cublas)), scores_(scores) {}

  std::string_view name() const override { return "baseline"; }

  // Scores of 16 bits are rounded once, after the scale; the softmax of either is computed in f32.
  std::vector<KernelRow> kernels() const override {
    std::vector<KernelRow> rows;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const bool all = scores_ == BaselineScores::f32;
      const std::string dtypes = all ? "f32, f16, bf16" : std::string(kDTypeNames.name(dtype));
      rows.push_back({kernel_name(false, dtype), "any", dtypes,
                      "cuBLAS strided products around a fused mask and softmax"});
      rows.push_back({kernel_name(true, dtype), "any", dtypes,
                      "the same by one batched product each, for few queries of many sequences or grouped "
                      "heads"});
      if (all) break;
    }
    return rows;
  }

  std::optional<std::string> why_not(const AttentionProblem&) const override { return std::nullopt; }

  std::string kernel_for(const AttentionProblem& problem) const override {
    return kernel_name(by_pointers(problem), score_dtype(problem));
  }

  AttentionScratch scratch(const AttentionProblem& p) const override {
    const auto matrices = static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.q_heads);
    const DType type = score_dtype(p);
    const std::size_t row_bytes = static_cast<std::size_t>(score_step(p, type)) * size_of(type);
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
    auto* matrix = static_cast<char*>(scores);
    const DType type = score_dtype(problem);
    const auto score_bytes = static_cast<std::int64_t>(size_of(type));
    const std::int64_t step = score_step(problem, type);
    const std::int64_t apart = step * problem.q_len;
    const std::int64_t matrix_bytes = apart * score_bytes;
    auto** pointers = static_cast<void**>(workspace);
    const std::int64_t count = std::int64_t{problem.batch} * problem.q_heads;
    const bool pointed = by_pointers(problem);
    if (pointed)
      ATTN_CUDA(cuda::attention_pointers(params, matrix, matrix_bytes, pointers, device_.stream()));

    Product product{};
    product.rows = params.q_len;
    product.columns = params.kv_len;
    product.inner = params.head_dim;
    product.in_step = params.q_stride.token;
    product.other_step = params.k_stride.token;
    product.out_step = step;
    product.dtype = params.dtype;
    product.out_dtype = type;
    product.alpha = params.scale;
    if (pointed) {
      cublas_->multiply_pointers(product, pointers, pointers + count, pointers + 3 * count, count);
    } else {
      for_groups(params, [&](std::int64_t b, std::int64_t member, std::int64_t group) {
        product.in = place(params.q, params.q_stride, b, member, params.dtype);
        product.other = place(params.k, params.k_stride, b, 0, params.dtype);
        product.out = matrix + (b * params.q_heads + member) * matrix_bytes;
        cublas_->multiply_strided(product, group * params.q_stride.head, params.k_stride.head, group * apart,
                                  params.kv_heads);
      });
    }

    ATTN_CUDA(cuda::masked_softmax({matrix, step, count * problem.q_len, problem.q_len, problem.kv_len,
                                    problem.causal, type, problem.dtype, params.lse, params.past_len},
                                   device_.stream()));

    // Elements of the tensors' type where one score lay.
    const std::int64_t per_score = score_bytes / static_cast<std::int64_t>(size_of(problem.dtype));
    product.columns = params.head_dim;
    product.inner = params.kv_len;
    product.in_step = step * per_score;
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
        product.in = matrix + (b * params.q_heads + member) * matrix_bytes;
        product.other = place(params.v, params.v_stride, b, 0, params.dtype);
        product.out = const_cast<void*>(place(params.out, params.out_stride, b, member, params.dtype));
        cublas_->multiply_strided(product, group * apart * per_score, params.v_stride.head,
                                  group * params.out_stride.head, params.kv_heads);
      });
    }
  }

 private:
  DType score_dtype(const AttentionProblem& p) const {
    return scores_ == BaselineScores::f32 ? DType::f32 : p.dtype;
  }

  static std::string kernel_name(bool pointed, DType scores) {
    return fmt::format("cuda_baseline_{}_{}scores", pointed ? "pointers" : "strided",
                       kDTypeNames.name(scores));
  }

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
  BaselineScores scores_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_baseline_attention(CudaDevice& device, std::shared_ptr<Cublas> cublas,
                                                          BaselineScores scores) {
  return std::make_unique<BaselineAttention>(device, std::move(cublas), scores);
}

}  // namespace attn
