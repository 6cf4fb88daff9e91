// The prompts of attnlogits as token ids.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/attnlogits/options.h"
#include "lib/model/config.h"
#include "lib/text/token.h"
#include "lib/text/tokenizer.h"

namespace attn {

struct LogitsPrompt {
  std::string label;  // the text's first 80 characters, or the ids as given
  std::string file;   // where it was read from, of --prompts with the line: "set.txt:12"; empty for texts and
                      // ids of the command line
  std::vector<TokenId> ids;
  std::int64_t all_tokens = 0;     // before it was cut to --max-length
  std::vector<std::string> notes;  // for its records
};

// `tokenizer` is called only if a prompt is a text. Error{bad_input}: an empty prompt, ids that are no
// numbers or not in the embedding, a tokenizer larger than the embedding, a file that is not there, a line of
// --prompts that is no JSON object with a text where there must be one.
std::vector<LogitsPrompt> make_prompts(const LogitsOptions& options, const ModelConfig& config,
                                       const std::function<const Tokenizer&()>& tokenizer);

// "1,2,3" as numbers. Throws Error{usage} naming `flag`.
std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view flag);

}  // namespace attn
