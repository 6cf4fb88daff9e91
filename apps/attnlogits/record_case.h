// The result record of one pair on one prompt.
#pragma once

#include "apps/attnlogits/comparison.h"
#include "apps/attnlogits/prompts.h"
#include "lib/results/record.h"

namespace attn {

struct LogitsRunFacts {
  Fields environment;
  std::vector<std::string> notes;
};

ResultRecord make_record(const LogitsOptions& options, const Platform& platform, const Model& model,
                         const LogitsPrompt& prompt, const LogitsVariant& base, const LogitsVariant& other,
                         const Divergence& divergence, bool interrupted, const LogitsRunFacts& facts);

}  // namespace attn
