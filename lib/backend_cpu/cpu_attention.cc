// The attention backends of the CPU.
#include "lib/backend_cpu/cpu_attention.h"

#include "kernels/cpu/attention_baseline.h"
#include "kernels/cpu/attention_flash.h"
#include "kernels/cpu/attention_reference.h"
#include "lib/backend/attention_inputs.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

namespace {

// One row of the table: a kernel, when it is the one to run, what it needs.
struct CpuKernel {
  const char* name;
  const char* what;
  bool (*fits)(const AttentionParams&);  // null: every problem
  std::size_t (*scores_bytes)(const AttentionParams&);
  std::size_t (*workspace_bytes)(const AttentionParams&);
  void (*run)(const AttentionParams&, void* scores, void* workspace);
};

std::size_t nothing(const AttentionParams&) { return 0; }

constexpr CpuKernel kReferenceKernels[] = {
    {"cpu_reference_f64", "by the definition, in double", nullptr, nothing,
     cpu::attention_reference_workspace,
     [](const AttentionParams& p, void*, void* workspace) { cpu::attention_reference(p, workspace); }}};

constexpr CpuKernel kBaselineKernels[] = {
    {"cpu_baseline", "OpenBLAS product, masked softmax in place, OpenBLAS product", nullptr,
     cpu::attention_baseline_scores, nothing, [](const AttentionParams& p, void* scores, void*) {
       cpu::attention_baseline(p, static_cast<float*>(scores));
     }}};

constexpr CpuKernel kFlashKernels[] = {
    {"cpu_flash_few", "up to 8 queries (decode): one pass over K and V, split over keys", cpu::is_flash_few,
     nothing, cpu::attention_flash_few_workspace,
     [](const AttentionParams& p, void*, void* workspace) { cpu::attention_flash_few(p, workspace); }},
    {"cpu_flash", "tiles of queries and keys, online softmax, a SIMD lane a query", nullptr, nothing,
     cpu::attention_flash_workspace,
     [](const AttentionParams& p, void*, void* workspace) { cpu::attention_flash(p, workspace); }}};

class CpuAttention : public AttentionBackend {
 public:
  CpuAttention(std::string_view name, const CpuKernel* kernels, std::size_t count)
      : name_(name), kernels_(kernels), count_(count) {}

  std::string_view name() const override { return name_; }

  std::vector<KernelRow> kernels() const override {
    std::vector<KernelRow> rows;
    for (std::size_t i = 0; i < count_; ++i)
      rows.push_back({kernels_[i].name, "any", "f32", kernels_[i].what});
    return rows;
  }

  std::optional<std::string> why_not(const AttentionProblem& problem) const override {
    if (problem.dtype == DType::f32) return std::nullopt;
    return fmt::format("the CPU device computes in f32, not {}; use --dtype f32 or --device cuda",
                       kDTypeNames.name(problem.dtype));
  }

  std::string kernel_for(const AttentionProblem& problem) const override {
    return choose(attention_sizes(problem)).name;
  }

  AttentionScratch scratch(const AttentionProblem& problem) const override {
    const AttentionParams params = attention_sizes(problem);
    const CpuKernel& kernel = choose(params);
    return {kernel.scores_bytes(params), kernel.workspace_bytes(params)};
  }

  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
               void* workspace) override {
    if (const auto reason = why_not(problem)) fail(ErrorKind::unsupported, "mode {}: {}", name_, *reason);
    AttentionParams params = attention_params(problem, tensors);
    if (params.past_len != nullptr) params.kv_len = *params.past_len + params.q_len;
    choose(params).run(params, scores, workspace);
  }

 private:
  const CpuKernel& choose(const AttentionParams& params) const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (kernels_[i].fits == nullptr || kernels_[i].fits(params)) return kernels_[i];
    }
    fail(ErrorKind::internal, "mode {} has no kernel for any problem", name_);
  }

  std::string_view name_;
  const CpuKernel* kernels_;
  std::size_t count_;
};

template <std::size_t N>
std::unique_ptr<AttentionBackend> backend_of(std::string_view name, const CpuKernel (&kernels)[N]) {
  return std::make_unique<CpuAttention>(name, kernels, N);
}

}  // namespace

std::vector<std::unique_ptr<AttentionBackend>> make_cpu_attention() {
  std::vector<std::unique_ptr<AttentionBackend>> all;
  all.push_back(backend_of("reference", kReferenceKernels));
  all.push_back(backend_of("baseline", kBaselineKernels));
  all.push_back(backend_of("flash", kFlashKernels));
  return all;
}

}  // namespace attn
