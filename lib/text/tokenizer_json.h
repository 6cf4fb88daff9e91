// tokenizer.json, the file of the Hugging Face tokenizers library, read strictly.
#pragma once

#include <string>
#include <string_view>

#include "lib/text/bpe_tokenizer.h"

namespace attn {

// `source` is the file's name for messages. Error{bad_input}: no JSON, or not of the file's form.
// Error{unsupported}: a component, option or key that we do not implement, by its name: nothing in the file
// is passed over.
BpeDefinition parse_tokenizer_json(std::string_view json, const std::string& source);

// The older pair of files: vocab.json (encoder.json), a map from token to id, and merges.txt (vocab.bpe), a
// pair a line. They name neither split pattern nor special tokens: GPT-2's, and <|endoftext|> where the
// vocabulary has it.
BpeDefinition parse_vocab_and_merges(std::string_view vocab, const std::string& vocab_source,
                                     std::string_view merges, const std::string& merges_source);

}  // namespace attn
