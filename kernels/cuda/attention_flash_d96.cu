// Mode flash, many queries, head dimension 96.
#include "kernels/cuda/attention_flash_kernel.cuh"

namespace attn::cuda {

const FlashRow kFlashD96F16 =
    flash_row<FlashTile<Half, 96, 128, 64, 4, false>>("flash_mma_d96_f16", DType::f16);
const FlashRow kFlashD96BF16 =
    flash_row<FlashTile<BFloat, 96, 128, 64, 4, false>>("flash_mma_d96_bf16", DType::bf16);

}  // namespace attn::cuda
