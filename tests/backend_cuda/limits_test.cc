// Shared memory of the GPUs in use: what a GPU with 99 KiB a block chooses exists, fits, and is right. Class
// 22 of kernels/README.md.
#include <algorithm>
#include <set>
#include <string>

#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_flash_simt.h"
#include "lib/backend/attention_inputs.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/backend_cuda/cuda_device.h"
#include "tests/conformance/attention_checks.h"
#include "tests/conformance/grid_check.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

struct Gpu {
  const char* name;
  int compute_capability, block_shared_bytes, sm_count;
};

// CUDA C++ programming guide, technical specifications: opt-in shared memory of a block.
constexpr Gpu kGpus[] = {{"A100", 80, 166912, 108}, {"RTX 4090", 89, 101376, 128}, {"H200", 90, 232448, 132}};
constexpr Gpu kSmallest = kGpus[1];

bool runs_on(const cuda::FlashRow& row, const Gpu& gpu) {
  return row.min_sm <= gpu.compute_capability && row.shared_bytes <= gpu.block_shared_bytes;
}

bool fits(const cuda::FlashRow& row, const AttentionProblem& p) {
  return (row.head_dim == 0 ? p.head_dim <= cuda::kSimtMaxHeadDim : row.head_dim == p.head_dim) &&
         (row.max_q_len == 0 || p.q_len <= row.max_q_len) && row.dtype == p.dtype &&
         (!row.needs_alignment || p.scale > 0);
}

const cuda::FlashRow* first_row(const AttentionProblem& p, const Gpu& gpu) {
  for (const cuda::FlashRow* row : cuda::flash_rows())
    if (runs_on(*row, gpu) && fits(*row, p)) return row;
  return nullptr;
}

// Mode flash as a GPU of the table would choose, run on the GPU at hand.
class FlashOf : public AttentionBackend {
 public:
  FlashOf(const Gpu& gpu, CudaDevice& device)
      : gpu_(gpu),
        device_(device),
        tickets_(device.allocate(cuda::kDecodeTickets * sizeof(std::uint32_t), MemoryUse::workspace)) {
    device.fill_zero(tickets_.data(), tickets_.bytes());
  }
  std::string_view name() const override { return "flash"; }
  std::vector<KernelRow> kernels() const override {
    std::set<std::string> names;  // that some problem leads to
    for (const int head_dim : {20, 64, 80, 96, 128, 256})
      for (const int queries : {1, 100})
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
          names.insert(kernel_for({1, queries, 100, 1, 1, head_dim, dtype, 1, true}));
    std::vector<KernelRow> rows;
    for (const std::string& name : names) rows.push_back({name, "", "", ""});
    return rows;
  }
  std::optional<std::string> why_not(const AttentionProblem& p) const override {
    if (first_row(p, gpu_) != nullptr) return std::nullopt;
    return "no row";
  }
  std::string kernel_for(const AttentionProblem& p) const override { return first_row(p, gpu_)->name; }
  AttentionScratch scratch(const AttentionProblem& p) const override {
    const cuda::FlashRow& row = *first_row(p, gpu_);
    return {0, row.workspace == nullptr ? 0 : row.workspace(attention_sizes(p), gpu_.sm_count)};
  }
  void forward(const AttentionProblem& p, const AttentionTensors& tensors, void*, void* workspace) override {
    const cuda::FlashRow& row = *first_row(p, gpu_);
    const AttentionParams params = attention_params(p, tensors);
    if (row.decode == nullptr) {
      ATTN_CUDA(row.launch(params, workspace, gpu_.sm_count, device_.stream()));
      return;
    }
    cuda::DecodeCall call{};
    call.params = params;
    call.workspace = workspace;
    call.tickets = static_cast<std::uint32_t*>(tickets_.data());
    call.sm_count = gpu_.sm_count;
    call.block_shared_bytes = gpu_.block_shared_bytes;
    ATTN_CUDA(row.decode(call, device_.stream()));
  }

 private:
  Gpu gpu_;
  CudaDevice& device_;
  Buffer tickets_;
};

void expect_none(const conformance::Failures& failures) {
  for (std::size_t i = 0; i < failures.size() && i < 10; ++i) UNSCOPED_INFO(failures[i]);
  CHECK(failures.empty());
}

}  // namespace

TEST_CASE(
    "every GPU in use has kernels with tensor cores for every head dimension within its shared memory") {
  for (const Gpu& gpu : kGpus) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const int head_dim : {64, 80, 96, 128, 256}) {
        for (const int queries : {1, 16, 17, 4096}) {
          CAPTURE(gpu.name, static_cast<int>(dtype), head_dim, queries);
          const cuda::FlashRow* row = first_row({1, queries, 4096, 8, 8, head_dim, dtype, 0.1F, true}, gpu);
          REQUIRE(row != nullptr);
          CHECK(row->head_dim == head_dim);
          CHECK(row->shared_bytes > 0);
        }
      }
    }
  }
  for (const cuda::FlashRow* row : cuda::flash_rows()) {
    CAPTURE(row->name);
    CHECK(
        std::any_of(std::begin(kGpus), std::end(kGpus), [&](const Gpu& gpu) { return runs_on(*row, gpu); }));
    CHECK((row->launch == nullptr) != (row->decode == nullptr));
  }
}

TEST_CASE("scratch of a decode step never shrinks with the keys on any GPU in use") {
  for (const Gpu& gpu : kGpus) {
    for (const cuda::FlashRow* row : cuda::flash_rows()) {
      if (row->workspace == nullptr) continue;
      for (const int batch : {1, 3, 8, 33, 5000}) {
        CAPTURE(gpu.name, row->name, batch);
        std::size_t last = 0;
        for (int keys = 1; keys < 1000000; keys += 1 + keys / 3) {
          const AttentionProblem p{batch, 1, keys, 32, 8, row->head_dim, row->dtype, 0.1F, true};
          const std::size_t now = row->workspace(attention_sizes(p), gpu.sm_count);
          REQUIRE(now >= last);
          last = now;
        }
      }
    }
  }
}

TEST_CASE("what a GPU with 99 KiB of shared memory chooses is right") {
  ATTN_OPEN_GPU(platform);
  FlashOf small(kSmallest, static_cast<CudaDevice&>(*platform.device));
  for (const KernelRow& row : small.kernels()) {
    for (const cuda::FlashRow* of_table : cuda::flash_rows())
      if (of_table->name == row.name) CHECK(of_table->shared_bytes <= kSmallest.block_shared_bytes);
  }
  expect_none(conformance::check_against_definition(platform, small));
  const conformance::GridResult grid = conformance::check_grid(platform, small, {2000000000, 3});
  expect_none(grid.failures);
  CHECK(grid.checked > 100);
}

TEST_CASE("a kernel asks for no more shared memory than the GPU says it has") {
  ATTN_OPEN_GPU(platform);
  const CudaDevice& device = static_cast<const CudaDevice&>(*platform.device);
  for (const Gpu& gpu : kGpus) {
    if (gpu.compute_capability != device.compute_capability()) continue;
    CHECK(device.block_shared_bytes() == static_cast<std::size_t>(gpu.block_shared_bytes));
  }
  AttentionBackend& flash = platform.backend("flash");
  for (const KernelRow& row : flash.kernels()) {
    for (const cuda::FlashRow* of_table : cuda::flash_rows())
      if (of_table->name == row.name)
        CHECK(static_cast<std::size_t>(of_table->shared_bytes) <= device.block_shared_bytes());
  }
}
