// Ops on a GPU, in f32, f16 or bf16 as the tensors are.
#pragma once

#include <memory>

#include "lib/backend/ops.h"
#include "lib/backend_cuda/cublas.h"

namespace attn {

std::unique_ptr<Ops> make_cuda_ops(CudaDevice& device, std::shared_ptr<Cublas> cublas);

}  // namespace attn
