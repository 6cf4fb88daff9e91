// The table of mode flash's kernels.
#include "kernels/cuda/attention_flash.h"

#include "kernels/cuda/attention_flash_simt.h"

namespace attn::cuda {

namespace {

cudaError_t launch_simt(const AttentionParams& params, void*, int, cudaStream_t stream) {
  return attention_flash_simt(params, stream);
}

constexpr FlashRow simt_row(const char* name, DType dtype) {
  return {name,    "any head dimension up to 256: tiles in shared memory, no tensor cores",
          0,       dtype,
          80,      0,
          0,       false,
          nullptr, launch_simt,
          nullptr, true};
}

constexpr FlashRow kSimtF32 = simt_row("flash_simt_f32", DType::f32);
constexpr FlashRow kSimtF16 = simt_row("flash_simt_f16", DType::f16);
constexpr FlashRow kSimtBF16 = simt_row("flash_simt_bf16", DType::bf16);

const FlashRow* const kRows[] = {
    &kDecodeD64F16,      &kDecodeD64BF16,      &kDecodeD80F16,   &kDecodeD80BF16, &kDecodeD96F16,
    &kDecodeD96BF16,     &kDecodeD128F16,      &kDecodeD128BF16, &kDecodeD256F16, &kDecodeD256BF16,
    &kFlashD64F16,       &kFlashD64BF16,       &kFlashD80F16,    &kFlashD80BF16,  &kFlashD96F16,
    &kFlashD96BF16,      &kFlashD128F16,       &kFlashD128BF16,  &kFlashD256F16,  &kFlashD256BF16,
    &kFlashD256SmallF16, &kFlashD256SmallBF16, &kSimtF32,        &kSimtF16,       &kSimtBF16,
};

}  // namespace

std::span<const FlashRow* const> flash_rows() { return kRows; }

}  // namespace attn::cuda
