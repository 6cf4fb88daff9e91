// Mode flash, many queries, head dimension 128.
#include "kernels/cuda/attention_flash_kernel.cuh"

namespace attn::cuda {

const FlashRow kFlashD128F16 =
    flash_row<FlashTile<Half, 128, 128, 48, 4, false>>("flash_mma_d128_f16", DType::f16);
const FlashRow kFlashD128BF16 =
    flash_row<FlashTile<BFloat, 128, 128, 48, 4, false>>("flash_mma_d128_bf16", DType::bf16);

}  // namespace attn::cuda
