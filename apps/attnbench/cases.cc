// From options to cases.
#include "apps/attnbench/cases.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/text/prompts.h"

namespace attn {
namespace {

std::vector<std::string> prompt_files(const BenchOptions& options) {
  const auto or_bundled = [](const std::string& path, const char* bundled) {
    return path.empty() ? source_path(bundled).string() : path;
  };
  if (options.long_prompt) return {or_bundled(options.long_prompt_path, "prompts/long_prompt.txt")};
  if (!options.prompts.empty()) return options.prompts;
  return {or_bundled("", "prompts/short_prompt.txt")};
}

// Records of two checkouts can be paired: a bundled prompt is named from the root of the checkout.
std::string label_of(const std::string& file) {
  const std::string root = source_path("").string();
  return file.rfind(root, 0) == 0 ? file.substr(root.size()) : file;
}

Prompt text_prompt(const std::string& file, const BenchOptions& options, const Tokenizer& tokenizer,
                   const ModelConfig& config) {
  Prompt prompt{label_of(file), tokenizer.encode(read_prompt_file(file))};
  if (options.max_prompt_tokens) prompt.ids = truncate_prompt(prompt.ids, *options.max_prompt_tokens);
  const TokenId largest = *std::max_element(prompt.ids.begin(), prompt.ids.end());
  if (largest >= config.vocab) {
    fail(ErrorKind::bad_input, "{}: the tokenizer gives id {}, but the model's embedding has {} rows", file,
         largest, config.vocab);
  }
  return prompt;
}

}  // namespace

std::vector<Prompt> make_prompts(const BenchOptions& options, const Tokenizer* tokenizer,
                                 const ModelConfig& config) {
  std::vector<Prompt> prompts;
  const TokenId known = tokenizer != nullptr ? std::min(tokenizer->vocab_size(), config.vocab) : config.vocab;
  for (const int count : options.prompt_tokens)
    prompts.push_back({"random", random_prompt(known, count, options.model.seed)});
  if (!options.prompt_tokens.empty()) return prompts;
  if (tokenizer == nullptr) {
    fail(ErrorKind::bad_input,
         "{}: no tokenizer is on this machine, so a text cannot be used; give --prompt-tokens N for a prompt "
         "of "
         "random ids, or fetch the tokenizer with tools/fetch_model",
         model_name(options.model));
  }
  for (const std::string& file : prompt_files(options))
    prompts.push_back(text_prompt(file, options, *tokenizer, config));
  return prompts;
}

std::vector<BenchCase> make_cases(const BenchOptions& options, const std::vector<Prompt>& prompts,
                                  const ModelConfig& config) {
  std::vector<BenchCase> cases;
  for (const Prompt& prompt : prompts) {
    for (const int batch : options.batch_sizes) {
      for (const int new_tokens : new_token_sizes(options)) {
        const BenchCase made{prompt, batch, new_tokens};
        const auto warning = context_warning(config, made.shape().capacity);
        if (warning && config.position == PositionKind::learned) {
          fail(ErrorKind::bad_input,
               "prompt of {} tokens and {} new ones: the model has {} learned positions and none beyond; "
               "shorten the "
               "prompt (--max-prompt-tokens) or ask for fewer new tokens",
               made.prompt_tokens(), new_tokens, config.max_positions);
        }
        if (warning && options.strict_context) fail(ErrorKind::bad_input, "--strict-context: {}", *warning);
        cases.push_back(made);
      }
    }
  }
  return cases;
}

}  // namespace attn
