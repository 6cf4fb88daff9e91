// The windows of each protocol over one passage of ids.
#pragma once

#include "lib/eval/protocols.h"

namespace attn {

// Sets passage.windows and, for Estimator::labels, window_weights. `bos` with passage.bos is the rule to
// follow. Error{bad_input}: llama_cpp and fewer than two chunks.
void plan_passage(Protocol protocol, Passage& passage, std::int64_t context, std::int64_t stride,
                  BosRule bos);

}  // namespace attn
