// Mode flash, few queries, head dimension 96.
#include "kernels/cuda/attention_decode_kernel.cuh"

namespace attn::cuda {

const FlashRow kDecodeD96F16 = decode_table_row<DecodeTile<Half, 96, 5, 2>, DecodeTile<Half, 96, 8, 2>>(
    "flash_decode_d96_f16", DType::f16);
const FlashRow kDecodeD96BF16 = decode_table_row<DecodeTile<BFloat, 96, 5, 2>, DecodeTile<BFloat, 96, 8, 2>>(
    "flash_decode_d96_bf16", DType::bf16);

}  // namespace attn::cuda
