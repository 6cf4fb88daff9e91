// Mode flash, few queries, head dimension 80.
#include "kernels/cuda/attention_decode_kernel.cuh"

namespace attn::cuda {

const FlashRow kDecodeD80F16 = decode_table_row<DecodeTile<Half, 80, 4, 3>, DecodeTile<Half, 80, 8, 3>>(
    "flash_decode_d80_f16", DType::f16);
const FlashRow kDecodeD80BF16 = decode_table_row<DecodeTile<BFloat, 80, 4, 3>, DecodeTile<BFloat, 80, 8, 3>>(
    "flash_decode_d80_bf16", DType::bf16);

}  // namespace attn::cuda
