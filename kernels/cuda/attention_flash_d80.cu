// Mode flash, many queries, head dimension 80.
#include "kernels/cuda/attention_flash_kernel.cuh"

namespace attn::cuda {

const FlashRow kFlashD80F16 =
    flash_row<FlashTile<Half, 80, 128, 64, 4, true>>("flash_mma_d80_f16", DType::f16);
const FlashRow kFlashD80BF16 =
    flash_row<FlashTile<BFloat, 80, 128, 64, 4, true>>("flash_mma_d80_bf16", DType::bf16);

}  // namespace attn::cuda
