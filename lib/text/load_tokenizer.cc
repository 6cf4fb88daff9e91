// Which tokenizer files a model's folder has.
#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "lib/text/bpe_tokenizer.h"
#include "lib/text/json_fields.h"
#include "lib/text/tokenizer.h"
#include "lib/text/tokenizer_json.h"

namespace attn {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 28;  // the largest known tokenizer.json has 35 MB

fs::path first_file(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return {};
}

// vocab.json and merges.txt do not say how text is split; where the folder names another tokenizer than
// GPT-2's, assuming GPT-2's would give wrong ids without a word.
void check_tokenizer_class(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!fs::is_regular_file(path)) return;
  const nlohmann::json config = parse_json_text(read_text_file(path, kMaxFileBytes), path.string());
  JsonFields fields(config, path.string(), "");
  if (fields.find("tokenizer_class")) {
    const std::string name = fields.get_string("tokenizer_class");
    if (name != "GPT2Tokenizer" && name != "GPT2TokenizerFast") {
      fail(ErrorKind::unsupported,
           "{}: 'tokenizer_class' = '{}' is not supported from vocab.json and merges.txt; supported: "
           "GPT2Tokenizer; "
           "put its tokenizer.json into the folder",
           path.string(), name);
    }
  }
  fields.refuse("add_prefix_space");
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& model_dir) {
  const auto load_json = [](const fs::path& path) {
    return std::make_unique<BpeTokenizer>(
        parse_tokenizer_json(read_text_file(path, kMaxFileBytes), path.string()));
  };
  if (!fs::exists(model_dir)) {
    fail(ErrorKind::bad_input, "{}: does not exist; it must be a folder with a tokenizer",
         model_dir.string());
  }
  if (!fs::is_directory(model_dir)) return load_json(model_dir);
  if (const fs::path path = first_file(model_dir, {"tokenizer.json"}); !path.empty()) return load_json(path);

  const fs::path vocab = first_file(model_dir, {"vocab.json", "encoder.json"});
  const fs::path merges = first_file(model_dir, {"merges.txt", "vocab.bpe"});
  if (vocab.empty() || merges.empty()) {
    const std::string_view hint = fs::is_regular_file(model_dir / "tokenizer.model")
                                      ? " (its tokenizer.model, of SentencePiece or tiktoken, is not read)"
                                      : "";
    fail(ErrorKind::bad_input,
         "{}: has no tokenizer: looked for tokenizer.json, then for vocab.json or encoder.json ({}) with "
         "merges.txt or "
         "vocab.bpe ({}){}",
         model_dir.string(), vocab.empty() ? "missing" : "there", merges.empty() ? "missing" : "there", hint);
  }
  check_tokenizer_class(model_dir);
  return std::make_unique<BpeTokenizer>(
      parse_vocab_and_merges(read_text_file(vocab, kMaxFileBytes), vocab.string(),
                             read_text_file(merges, kMaxFileBytes), merges.string()));
}

}  // namespace attn
