// Mode flash on a GPU: the first row of the kernels' table that fits.
#include <cstdint>

#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_flash_simt.h"
#include "lib/backend/attention_inputs.h"
#include "lib/backend_cuda/cuda_attention.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

namespace {

class FlashAttention : public AttentionBackend {
 public:
  explicit FlashAttention(CudaDevice& device) : device_(device) {}

  std::string_view name() const override { return "flash"; }

  std::vector<KernelRow> kernels() const override {
    std::vector<KernelRow> rows;
    for (const cuda::FlashRow* row : cuda::flash_rows()) {
      if (!runs_here(*row) || shadowed(*row)) continue;
      rows.push_back({row->name,
                      row->head_dim == 0 ? fmt::format("up to {}", cuda::kSimtMaxHeadDim)
                                         : std::to_string(row->head_dim),
                      std::string(kDTypeNames.name(row->dtype)), row->what});
    }
    return rows;
  }

  std::optional<std::string> why_not(const AttentionProblem& problem) const override {
    if (find(problem) != nullptr) return std::nullopt;
    return fmt::format(
        "no kernel for head_dim {} in {} on compute capability {}.{} (attnbench --list-kernels)",
        problem.head_dim, kDTypeNames.name(problem.dtype), device_.compute_capability() / 10,
        device_.compute_capability() % 10);
  }

  std::string kernel_for(const AttentionProblem& problem) const override { return row_for(problem).name; }

  AttentionScratch scratch(const AttentionProblem& problem) const override {
    const cuda::FlashRow& row = row_for(problem);
    return {0, row.workspace == nullptr ? 0 : row.workspace(attention_sizes(problem), device_.sm_count())};
  }

  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void*,
               void* workspace) override {
    const cuda::FlashRow& row = row_for(problem);
    if (row.needs_alignment)
      for (const TensorView* view : {&tensors.q, &tensors.k, &tensors.v, &tensors.out})
        check_aligned(*view, row.name);
    ATTN_CUDA(
        row.launch(attention_params(problem, tensors), workspace, device_.sm_count(), device_.stream()));
  }

 private:
  bool runs_here(const cuda::FlashRow& row) const {
    return row.min_sm <= device_.compute_capability() &&
           static_cast<std::size_t>(row.shared_bytes) <= device_.block_shared_bytes();
  }

  // An earlier row does all that this one could.
  bool shadowed(const cuda::FlashRow& row) const {
    for (const cuda::FlashRow* earlier : cuda::flash_rows()) {
      if (earlier == &row) return false;
      if (runs_here(*earlier) && earlier->head_dim == row.head_dim && earlier->dtype == row.dtype &&
          earlier->max_q_len == row.max_q_len)
        return true;
    }
    return false;
  }

  const cuda::FlashRow* find(const AttentionProblem& problem) const {
    for (const cuda::FlashRow* row : cuda::flash_rows()) {
      const bool dims =
          row->head_dim == 0 ? problem.head_dim <= cuda::kSimtMaxHeadDim : row->head_dim == problem.head_dim;
      const bool queries = row->max_q_len == 0 || problem.q_len <= row->max_q_len;
      if (dims && queries && row->dtype == problem.dtype && runs_here(*row) &&
          (!row->needs_alignment || problem.scale > 0))
        return row;
    }
    return nullptr;
  }

  const cuda::FlashRow& row_for(const AttentionProblem& problem) const {
    const cuda::FlashRow* row = find(problem);
    if (row == nullptr) fail(ErrorKind::unsupported, "mode flash: {}", *why_not(problem));
    return *row;
  }

  static void check_aligned(const TensorView& view, const char* kernel) {
    constexpr std::int64_t kBytes = 16;
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    bool aligned = reinterpret_cast<std::uintptr_t>(view.data) % kBytes == 0;
    for (int axis = 0; axis < 3; ++axis)
      aligned = aligned && (view.extent(axis) == 1 || view.stride(axis) * size % kBytes == 0);
    if (!aligned)
      fail(ErrorKind::unsupported, "{}: the rows of {} must begin at multiples of {} bytes", kernel,
           view.shape.text(), kBytes);
  }

  CudaDevice& device_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_flash_attention(CudaDevice& device) {
  return std::make_unique<FlashAttention>(device);
}

}  // namespace attn
