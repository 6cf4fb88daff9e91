// Mode flash, few queries, head dimension 256.
#include "kernels/cuda/attention_decode_kernel.cuh"

namespace attn::cuda {

const FlashRow kDecodeD256F16 = decode_table_row<DecodeTile<Half, 256, 2, 2>, DecodeTile<Half, 256, 4, 2>>(
    "flash_decode_d256_f16", DType::f16);
const FlashRow kDecodeD256BF16 =
    decode_table_row<DecodeTile<BFloat, 256, 2, 2>, DecodeTile<BFloat, 256, 4, 2>>("flash_decode_d256_bf16",
                                                                                   DType::bf16);

}  // namespace attn::cuda
