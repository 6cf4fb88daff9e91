// Mode flash, many queries, head dimension 64.
#include "kernels/cuda/attention_flash_kernel.cuh"

namespace attn::cuda {

const FlashRow kFlashD64F16 =
    flash_row<FlashTile<Half, 64, 128, 64, 4, true>>("flash_mma_d64_f16", DType::f16);
const FlashRow kFlashD64BF16 =
    flash_row<FlashTile<BFloat, 64, 128, 64, 4, true>>("flash_mma_d64_bf16", DType::bf16);

}  // namespace attn::cuda
