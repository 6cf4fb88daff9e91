// What attnbench prints without measuring: models, kernels, cases.
#pragma once

#include <string>
#include <vector>

#include "apps/attnbench/cases.h"

namespace attn {

std::string list_models();
std::string list_kernels(const Platform& platform);
// Each case with the memory it is predicted to take in each mode.
std::string list_cases(const std::vector<BenchCase>& cases, const BenchOptions& options,
                       const Platform& platform, const ModelConfig& config, DType dtype);

}  // namespace attn
