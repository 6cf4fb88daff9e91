// Mode flash, few queries, head dimension 128.
#include "kernels/cuda/attention_decode_kernel.cuh"

namespace attn::cuda {

const FlashRow kDecodeD128F16 = decode_table_row<DecodeTile<Half, 128, 4, 2>, DecodeTile<Half, 128, 8, 2>>(
    "flash_decode_d128_f16", DType::f16);
const FlashRow kDecodeD128BF16 =
    decode_table_row<DecodeTile<BFloat, 128, 4, 2>, DecodeTile<BFloat, 128, 8, 2>>("flash_decode_d128_bf16",
                                                                                   DType::bf16);

}  // namespace attn::cuda
