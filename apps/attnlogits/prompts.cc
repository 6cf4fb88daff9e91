// Texts, files and ids to prompts.
#include "apps/attnlogits/prompts.h"

#include <algorithm>
#include <charconv>

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "lib/text/document.h"
#include "lib/text/prompts.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

constexpr int kLabelCharacters = 80;                            // as system B's compare_logits
constexpr const char* kLongPrompt = "prompts/long_prompt.txt";  // in the source tree
// The prompts of system B's compare_logits, which end in its long prompt.
constexpr const char* kDefaultPrompts[] = {"Hello world!", "The quick brown fox jumps over the lazy dog.",
                                           "Deep learning models require careful attention masking."};

// Of valid UTF-8.
std::string label_of(std::string_view text) {
  std::size_t bytes = 0;
  for (int characters = 0; bytes < text.size(); ++bytes) {
    const bool begins = (static_cast<unsigned char>(text[bytes]) & 0xc0) != 0x80;
    if (begins && ++characters > kLabelCharacters) break;
  }
  std::string label(text.substr(0, bytes));
  for (char& character : label) {
    if (static_cast<unsigned char>(character) < ' ') character = ' ';
  }
  return label;
}

LogitsPrompt text_prompt(std::string_view text, std::string file, const LogitsOptions& options,
                         const Tokenizer& tokenizer) {
  LogitsPrompt prompt{label_of(text), std::move(file), tokenizer.encode(text), 0, {}};
  if (prompt.ids.empty()) {
    fail(ErrorKind::bad_input, "the prompt '{}'{}{} has no tokens", prompt.label,
         prompt.file.empty() ? "" : " of ", prompt.file);
  }
  prompt.all_tokens = static_cast<std::int64_t>(prompt.ids.size());
  if (options.max_length > 0) prompt.ids = truncate_prompt(prompt.ids, options.max_length);
  return prompt;
}

LogitsPrompt id_prompt(const std::string& text, const ModelConfig& config) {
  LogitsPrompt prompt{text, "", {}, 0, {}};
  for (const std::int64_t id : parse_integers(text, "--ids")) {
    if (id < 0 || id >= config.vocab) {
      fail(ErrorKind::bad_input, "--ids: {} is not in 0..{}, the rows of the model's embedding", id,
           config.vocab - 1);
    }
    prompt.ids.push_back(static_cast<TokenId>(id));
  }
  prompt.all_tokens = static_cast<std::int64_t>(prompt.ids.size());
  return prompt;
}

bool looks_like_file(std::string_view text) {
  return text.ends_with(".txt") || text.ends_with(".zst") || text.ends_with(".md") ||
         text.ends_with(".jsonl");
}

struct PromptLine {
  std::string text, place;
};

// The lines of a file that are not empty; line ends are no part of a prompt, be they "\n" or "\r\n".
std::vector<PromptLine> lines_of(const std::string& path) {
  const bool json = path.ends_with(".jsonl") || path.ends_with(".jsonl.zst");
  TextFile file(path);
  std::vector<PromptLine> lines;
  std::string line;
  bool ended = false;
  for (int number = 1; file.read_line(line, &ended); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = fmt::format("{}:{}", path, number);
    if (json) {
      lines.push_back({text_of_json_line(line, ended, place), place});
    } else {
      validate_utf8(line, place);
      lines.push_back({line, place});
    }
  }
  if (lines.empty()) fail(ErrorKind::bad_input, "--prompts {}: the file has no line with a prompt", path);
  return lines;
}

}  // namespace

std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view flag) {
  std::vector<std::int64_t> numbers;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::int64_t number = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + end, number);
    if (error != std::errc{} || last != text.data() + end || end == 0)
      fail(ErrorKind::usage, "{}: '{}' is not a whole number; give numbers with commas: 1,2,3", flag,
           text.substr(0, end));
    numbers.push_back(number);
    if (end == text.size()) return numbers;
    text.remove_prefix(end + 1);
  }
}

std::vector<LogitsPrompt> make_prompts(const LogitsOptions& options, const ModelConfig& config,
                                       const std::function<const Tokenizer&()>& tokenizer) {
  const bool nothing_else = options.prompts.empty() && options.ids.empty() && options.prompt_files.empty();
  const bool by_default = nothing_else && options.long_prompt.empty();
  std::vector<LogitsPrompt> prompts;
  const auto add_file = [&](const fs::path& path, const std::string& shown) {
    prompts.push_back(text_prompt(read_prompt_file(path), shown, options, tokenizer()));
  };
  if (nothing_else) {
    for (const char* text : kDefaultPrompts) prompts.push_back(text_prompt(text, "", options, tokenizer()));
  }
  for (const std::string& prompt : options.prompts) {
    std::error_code error;
    if (fs::is_regular_file(prompt, error)) {
      add_file(prompt, prompt);
    } else if (looks_like_file(prompt)) {
      fail(ErrorKind::bad_input, "--prompt {}: there is no such file", prompt);
    } else {
      validate_utf8(prompt, "--prompt");
      prompts.push_back(text_prompt(prompt, "", options, tokenizer()));
    }
  }
  for (const std::string& file : options.prompt_files) {
    for (auto& [text, place] : lines_of(file))
      prompts.push_back(text_prompt(text, place, options, tokenizer()));
  }
  for (const std::string& ids : options.ids) prompts.push_back(id_prompt(ids, config));
  if (by_default) {
    add_file(source_path(kLongPrompt), kLongPrompt);
  } else if (!options.long_prompt.empty()) {
    if (std::error_code error; !fs::is_regular_file(options.long_prompt, error)) {
      fail(ErrorKind::bad_input,
           "--long-prompt {}: there is no such file; without the flag it is the bundled {}",
           options.long_prompt, kLongPrompt);
    }
    add_file(options.long_prompt, options.long_prompt);
  }
  return prompts;
}

}  // namespace attn
