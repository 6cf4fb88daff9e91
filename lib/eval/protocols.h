// Protocols: how a data set becomes passages and windows, each a published or own recipe under a name.
// docs/perplexity.md defines each in words.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/eval/passage.h"
#include "lib/text/document.h"

namespace attn {

enum class Protocol : unsigned char { full, hf_strided, lm_eval, llama_cpp, legacy_rows, legacy_window };
inline constexpr auto kProtocolNames = name_table<Protocol>({{Protocol::full, "full"},
                                                             {Protocol::hf_strided, "hf-strided"},
                                                             {Protocol::lm_eval, "lm-eval"},
                                                             {Protocol::llama_cpp, "llama.cpp"},
                                                             {Protocol::legacy_rows, "legacy-rows"},
                                                             {Protocol::legacy_window, "legacy-window"}});

// Where a BOS id is fed: nowhere, before the first window of a text, or before each.
enum class BosRule : unsigned char { none, first, each };
inline constexpr auto kBosRuleNames =
    name_table<BosRule>({{BosRule::none, "none"}, {BosRule::first, "first"}, {BosRule::each, "each"}});

// What becomes of a document before it is encoded. lines: each row (text_rows) is a text of its own. rows and
// rows_nn: its rows joined by nothing or by two line ends, as one text. pages: WikiText's pages, each a text.
enum class TextForm : unsigned char { as_is, lines, rows, rows_nn, pages };
inline constexpr auto kTextFormNames = name_table<TextForm>({{TextForm::as_is, "as-is"},
                                                             {TextForm::lines, "lines"},
                                                             {TextForm::rows, "rows"},
                                                             {TextForm::rows_nn, "rows-nn"},
                                                             {TextForm::pages, "pages"}});

// What a protocol is without options.
struct ProtocolFacts {
  Protocol protocol;
  Estimator estimator;  // hf_strided may be asked for windows or tokens instead
  TextForm text;
  bool joined;                   // all texts become one
  bool strided;                  // PlanOptions::stride means something
  bool parse_special;            // special tokens written out in the text become their id
  std::string_view detokenizer;  // "none" or its name
  BosRule bos;                   // llama_cpp: where the vocabulary wants one, `each`
  std::int64_t context;          // by default; 0: what the model was trained with
  std::int64_t min_context;
};
const ProtocolFacts& facts_of(Protocol protocol);

struct PlanOptions {
  std::int64_t context = 1024;
  std::int64_t stride = 512;
  std::int64_t max_samples = 0;  // texts, from the first on; 0: all
  std::int64_t max_tokens = 0;   // of all passages together, from the first on; 0: all
  // Nothing: as the protocol has it.
  std::optional<BosRule> bos;
  std::optional<Estimator> estimator;
  std::optional<TextForm> text;
};

// The texts, one at a time; nothing at the end.
using TextSource = std::function<std::optional<Document>()>;

// Throws Error{usage} for a context, stride, BOS rule, text form or estimator that the protocol does not
// have.
void check_plan_options(Protocol protocol, const PlanOptions& options);

// The lines of a text (valid UTF-8) as data-set libraries of WikiText give them: a blank line, of white space
// of any kind, is an empty string, any other keeps its leading space and its line end. A last line without a
// line end counts.
std::vector<std::string_view> text_rows(std::string_view text);

}  // namespace attn
