// The ceilings of a platform's device, measured at the beginning of a run.
#pragma once

#include "lib/backend/platform.h"
#include "lib/measure/roofline.h"

namespace attn {

// Copy always; read where `most_bytes` (of any one piece of work) do not fit in the last-level cache, since
// only then the memory limits; a product of n x n matrices in `dtype` by the library that the model's
// products use: n = 8192 on a GPU, on a CPU the smallest of 1024, 2048, ... that takes 20 ms. What there is
// not memory for is missing, with the reason. About a second on a CPU and half of one on a GPU.
Ceilings measure_ceilings(Platform& platform, DType dtype, double most_bytes);

// One line for the terminal.
std::string ceilings_text(const Ceilings& ceilings, DType dtype);

}  // namespace attn
