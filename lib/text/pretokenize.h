// Pre-tokenisation: the cut of a text into the pieces inside which byte pairs are merged.
#pragma once

#include <cstddef>
#include <string_view>

#include "lib/core/enum_names.h"
#include "lib/text/unicode.h"

namespace attn {

// Each is a regular expression of a model family, scanned by hand. Their pieces cover the text without gaps.
enum class SplitPattern { gpt2, llama3 };

// The exact text of each expression in a tokenizer.json.
inline constexpr auto kSplitPatterns = name_table<SplitPattern>({
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
});

// The end of the piece that begins at text[begin]; begin < text.size(), text is valid UTF-8.
std::size_t piece_end(SplitPattern pattern, std::string_view text, std::size_t begin,
                      const UnicodeTable& table);

}  // namespace attn
