// Mode flash, few queries, head dimension 64.
#include "kernels/cuda/attention_decode_kernel.cuh"

namespace attn::cuda {

const FlashRow kDecodeD64F16 = decode_table_row<DecodeTile<Half, 64, 4, 3>, DecodeTile<Half, 64, 8, 3>>(
    "flash_decode_d64_f16", DType::f16);
const FlashRow kDecodeD64BF16 = decode_table_row<DecodeTile<BFloat, 64, 4, 3>, DecodeTile<BFloat, 64, 8, 3>>(
    "flash_decode_d64_bf16", DType::bf16);

}  // namespace attn::cuda
