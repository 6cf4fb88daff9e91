// The attention backends of a GPU: reference, baseline, flash.
#pragma once

#include <memory>

#include "lib/backend/attention.h"
#include "lib/backend/platform.h"
#include "lib/backend_cuda/cublas.h"

namespace attn {

std::unique_ptr<AttentionBackend> make_reference_attention(CudaDevice& device);
std::unique_ptr<AttentionBackend> make_baseline_attention(CudaDevice& device, std::shared_ptr<Cublas> cublas,
                                                          BaselineScores scores);
std::unique_ptr<AttentionBackend> make_flash_attention(CudaDevice& device);

}  // namespace attn
