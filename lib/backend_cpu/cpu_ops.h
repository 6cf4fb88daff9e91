// Ops on the CPU, in f32.
#pragma once

#include <memory>

#include "lib/backend/ops.h"

namespace attn {

std::unique_ptr<Ops> make_cpu_ops();

}  // namespace attn
