// Mode flash on a GPU: the first row of the kernels' table that fits.
#include <algorithm>
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
  explicit FlashAttention(CudaDevice& device)
      : device_(device),
        tickets_(device.allocate(cuda::kDecodeTickets * sizeof(std::uint32_t), MemoryUse::workspace)) {
    device.fill_zero(tickets_.data(), tickets_.bytes());
  }

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

  bool appends(const AttentionProblem& problem) const override {
    const cuda::FlashRow* row = find(problem);
    return row != nullptr && row->decode != nullptr && problem.q_len == 1;
  }

  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void*,
               void* workspace) override {
    const cuda::FlashRow& row = row_for(problem);
    if (row.needs_alignment)
      for (const TensorView* view : {&tensors.q, &tensors.k, &tensors.v, &tensors.out})
        check_aligned(*view, row.name);
    if (tensors.past_len != nullptr && !row.reads_length)
      fail(ErrorKind::internal, "{} cannot read the number of keys on the device", row.name);
    if (tensors.append != nullptr && (!appends(problem) || tensors.past_len == nullptr))
      fail(ErrorKind::internal, "{} cannot append to the cache: {}", row.name, problem.text());
    const AttentionParams params = attention_params(problem, tensors);
    if (row.decode != nullptr &&
        std::max(params.k_stride.token, params.v_stride.token) > cuda::kDecodeMaxStep)
      fail(ErrorKind::unsupported, "{}: the keys' tokens must lie at most {} elements apart", row.name,
           cuda::kDecodeMaxStep);
    if (row.decode == nullptr) {
      ATTN_CUDA(row.launch(params, workspace, device_.sm_count(), device_.stream()));
      return;
    }
    cuda::DecodeCall call{};
    call.params = params;
    if (tensors.append != nullptr) call.append = decode_append(problem, tensors, row.name);
    call.workspace = workspace;
    call.tickets = static_cast<std::uint32_t*>(tickets_.data());
    call.sm_count = device_.sm_count();
    call.block_shared_bytes = static_cast<int>(device_.block_shared_bytes());
    call.early = device_.compute_capability() >= 90;
    ATTN_CUDA(row.decode(call, device_.stream()));
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

  static cuda::DecodeAppend decode_append(const AttentionProblem& problem, const AttentionTensors& tensors,
                                          const char* kernel) {
    const AttentionAppend& append = *tensors.append;
    const Shape keys{problem.batch, problem.q_len, problem.kv_heads, problem.head_dim};
    for (const TensorView* view : {&append.k, &append.v}) {
      if (view->empty() || view->dtype != problem.dtype || !(view->shape == keys) || view->stride(3) != 1)
        fail(ErrorKind::internal, "{}: new keys and values must be {} {} with dense rows, not {} {}", kernel,
             kDTypeNames.name(problem.dtype), keys.text(), kDTypeNames.name(view->dtype), view->shape.text());
      check_aligned(*view, kernel);
    }
    cuda::DecodeAppend out{};
    out.k = append.k.data;
    out.v = append.v.data;
    out.k_stride = {append.k.stride(0), append.k.stride(1), append.k.stride(2)};
    out.v_stride = {append.v.stride(0), append.v.stride(1), append.v.stride(2)};
    out.k_cache = tensors.k.data;
    out.v_cache = tensors.v.data;
    const RotaryTable& rotary = append.rotary;
    out.rotary_dims = rotary.rotary_dims;
    if (rotary.rotary_dims == 0) return out;
    const Shape table{rotary.cos.extent(0), rotary.rotary_dims / 2};
    for (const TensorView* view : {&rotary.cos, &rotary.sin}) {
      if (view->empty() || view->dtype != DType::f32 || !view->dense() || !(view->shape == table) ||
          rotary.rotary_dims > problem.head_dim || table[0] < problem.kv_len)
        fail(ErrorKind::internal, "{}: no rotary table for {} positions and {} dimensions: {}", kernel,
             problem.kv_len, rotary.rotary_dims, view->shape.text());
    }
    out.cos = rotary.cos.as<const float>();
    out.sin = rotary.sin.as<const float>();
    out.table_step = rotary.cos.stride(0);
    return out;
  }

  CudaDevice& device_;
  // Of the decode kernels; zero between calls. Not scratch, which holds nothing between calls.
  Buffer tickets_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_flash_attention(CudaDevice& device) {
  return std::make_unique<FlashAttention>(device);
}

}  // namespace attn
