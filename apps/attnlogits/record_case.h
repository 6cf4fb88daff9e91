// The result record of one pair on one prompt.
#pragma once

#include "apps/attnlogits/comparison.h"
#include "apps/attnlogits/prompts.h"
#include "lib/results/record.h"

namespace attn {

struct LogitsRunFacts {
  Fields environment;
  std::vector<std::string> notes;  // of every prompt; its own are in the prompt
};

// `prompts`: how many the figures are of; `prompt` is then all of them, end to end.
ResultRecord make_record(const LogitsOptions& options, const Platform& platform, const Model& model,
                         const LogitsPrompt& prompt, std::size_t prompts, const LogitsVariant& base,
                         const LogitsVariant& other, const LogitsPair& pair, bool interrupted,
                         const LogitsRunFacts& facts);

}  // namespace attn
