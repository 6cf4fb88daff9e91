// The table of protocols, and what each allows.
#include "lib/eval/protocols.h"

#include <algorithm>
#include <array>

#include "lib/core/error.h"
#include "lib/text/unicode.h"
#include "lib/text/utf8.h"

namespace attn {
namespace {

constexpr std::string_view kNone = "none", kWikitext = "lm-eval wikitext";

// protocol, estimator, text, joined, strided, parse_special, detokenizer, bos, context, min_context
constexpr std::array kProtocols{
    ProtocolFacts{Protocol::full, Estimator::tokens, TextForm::as_is, false, true, true, kNone, BosRule::none,
                  0, 2},
    ProtocolFacts{Protocol::hf_strided, Estimator::labels, TextForm::rows_nn, true, true, true, kNone,
                  BosRule::none, 0, 2},
    ProtocolFacts{Protocol::lm_eval, Estimator::tokens, TextForm::pages, false, false, true, kWikitext,
                  BosRule::first, 0, 2},
    // llama-perplexity reads special tokens in the text as plain text, and its context is 512 by default.
    ProtocolFacts{Protocol::llama_cpp, Estimator::tokens, TextForm::as_is, true, false, false, kNone,
                  BosRule::none, 512, 3},
    ProtocolFacts{Protocol::legacy_rows, Estimator::passages, TextForm::lines, false, false, true, kNone,
                  BosRule::none, 512, 2},
    // The program that it imitates raises a smaller window to 16 by itself.
    ProtocolFacts{Protocol::legacy_window, Estimator::labels, TextForm::as_is, false, true, true, kNone,
                  BosRule::none, 1024, 16},
};

bool allows(Protocol protocol, BosRule rule) {
  switch (protocol) {
    case Protocol::full: return true;
    case Protocol::hf_strided: return rule != BosRule::each;
    case Protocol::llama_cpp: return rule != BosRule::first;
    default: return rule == facts_of(protocol).bos;
  }
}

bool allows(Protocol protocol, Estimator estimator) {
  if (protocol == Protocol::hf_strided) return estimator != Estimator::passages;
  return estimator == facts_of(protocol).estimator;
}

bool allows(Protocol protocol, TextForm form) {
  switch (protocol) {
    case Protocol::lm_eval: return form == TextForm::pages || form == TextForm::as_is;
    case Protocol::legacy_rows: return form == TextForm::lines;
    default: return true;
  }
}

// Throws Error{usage} where the protocol does not have it.
template <typename Enum, typename Names>
void check(Protocol protocol, std::optional<Enum> asked, const Names& names, std::string_view option) {
  if (asked && !allows(protocol, *asked)) {
    fail(ErrorKind::usage, "protocol {} has no {} {}; leave it out", kProtocolNames.name(protocol), option,
         names.name(*asked));
  }
}

// Nothing is left of it by Python's str.strip().
bool is_blank(std::string_view row) {
  for (std::size_t at = 0; at < row.size();) {
    const Utf8Char c = decode_utf8(row, at);
    if (!is_python_space(c.code_point)) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace

const ProtocolFacts& facts_of(Protocol protocol) {
  const auto* const row =
      std::find_if(kProtocols.begin(), kProtocols.end(),
                   [&](const ProtocolFacts& candidate) { return candidate.protocol == protocol; });
  if (row == kProtocols.end())
    fail(ErrorKind::internal, "no plan for protocol {}", static_cast<int>(protocol));
  return *row;
}

std::vector<std::string_view> text_rows(std::string_view text) {
  std::vector<std::string_view> rows;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    const std::string_view row = text.substr(0, size);
    rows.push_back(is_blank(row) ? std::string_view() : row);
    text.remove_prefix(size);
  }
  return rows;
}

void check_plan_options(Protocol protocol, const PlanOptions& options) {
  const ProtocolFacts& facts = facts_of(protocol);
  plan_windows(0, options.context, options.stride);  // its check
  if (options.context < facts.min_context) {
    fail(ErrorKind::usage, "protocol {} needs a context of {} tokens or more, not {}",
         kProtocolNames.name(protocol), facts.min_context, options.context);
  }
  check(protocol, options.estimator, kEstimatorNames, "--average");
  check(protocol, options.text, kTextFormNames, "--text");
  check(protocol, options.bos, kBosRuleNames, "--bos");
}

}  // namespace attn
