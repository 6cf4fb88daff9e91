// Mode flash, many queries, head dimension 256.
#include "kernels/cuda/attention_flash_kernel.cuh"

namespace attn::cuda {

const FlashRow kFlashD256F16 =
    flash_row<FlashTile<Half, 256, 128, 64, 8, false>>("flash_mma_d256_f16", DType::f16);
const FlashRow kFlashD256BF16 =
    flash_row<FlashTile<BFloat, 256, 128, 64, 8, false>>("flash_mma_d256_bf16", DType::bf16);
// For the 99 KiB of sm_86 and sm_89.
const FlashRow kFlashD256SmallF16 =
    flash_row<FlashTile<Half, 256, 128, 32, 8, false>>("flash_mma_d256_small_f16", DType::f16);
const FlashRow kFlashD256SmallBF16 =
    flash_row<FlashTile<BFloat, 256, 128, 32, 8, false>>("flash_mma_d256_small_bf16", DType::bf16);

}  // namespace attn::cuda
