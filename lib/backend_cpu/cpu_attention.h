// The attention backends of the CPU: reference, baseline, flash.
#pragma once

#include <memory>
#include <vector>

#include "lib/backend/attention.h"

namespace attn {

std::vector<std::unique_ptr<AttentionBackend>> make_cpu_attention();

}  // namespace attn
