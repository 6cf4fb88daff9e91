// Mode reference on a GPU: by the definition, in double.
#include "kernels/cuda/attention_reference.h"
#include "lib/backend/attention_inputs.h"
#include "lib/backend_cuda/cuda_attention.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"

namespace attn {

namespace {

class ReferenceAttention : public AttentionBackend {
 public:
  explicit ReferenceAttention(CudaDevice& device) : device_(device) {}

  std::string_view name() const override { return "reference"; }

  std::vector<KernelRow> kernels() const override {
    return {{kName, "any", "f32, f16, bf16", "by the definition, in double"}};
  }

  std::optional<std::string> why_not(const AttentionProblem& problem) const override {
    if (problem.head_dim <= cuda::kReferenceMaxHeadDim) return std::nullopt;
    return fmt::format("head_dim {} is above {}", problem.head_dim, cuda::kReferenceMaxHeadDim);
  }

  std::string kernel_for(const AttentionProblem&) const override { return kName; }
  AttentionScratch scratch(const AttentionProblem&) const override { return {}; }

  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void*, void*) override {
    if (const auto reason = why_not(problem)) fail(ErrorKind::unsupported, "mode reference: {}", *reason);
    ATTN_CUDA(cuda::attention_reference(attention_params(problem, tensors), device_.stream()));
  }

 private:
  static constexpr const char* kName = "cuda_reference_f64";
  CudaDevice& device_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_reference_attention(CudaDevice& device) {
  return std::make_unique<ReferenceAttention>(device);
}

}  // namespace attn
