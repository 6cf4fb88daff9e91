// Cases: the product of prompts, batch sizes and new tokens, each measured in every mode.
#pragma once

#include <string>
#include <vector>

#include "apps/attnbench/options.h"
#include "lib/model/transformer.h"
#include "lib/text/token.h"
#include "lib/text/tokenizer.h"

namespace attn {

struct Prompt {
  std::string label;  // the file as the user named it, or "random"
  std::vector<TokenId> ids;
};

struct BenchCase {
  Prompt prompt;
  int batch = 1;
  int new_tokens = 1;

  int prompt_tokens() const { return static_cast<int>(prompt.ids.size()); }
  RunShape shape() const { return {batch, prompt_tokens() + new_tokens, prompt_tokens(), batch}; }
};

// Reads or draws the prompts. `tokenizer` may be null; then a text prompt is Error{bad_input} that names
// --prompt-tokens. Random ids stay below the tokenizer's size where there is one, and below the vocabulary.
// Ids of a text that the embedding does not have are Error{bad_input}.
std::vector<Prompt> make_prompts(const BenchOptions& options, const Tokenizer* tokenizer,
                                 const ModelConfig& config);

// Throws Error{bad_input} for a case past learned positions, or past the trained context with
// --strict-context.
std::vector<BenchCase> make_cases(const BenchOptions& options, const std::vector<Prompt>& prompts,
                                  const ModelConfig& config);

}  // namespace attn
