// The table of protocols; texts in the form that one wants; ids; windows.
#include "lib/eval/protocols.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>

#include "lib/core/error.h"
#include "lib/eval/protocol_windows.h"
#include "lib/eval/wikitext_pages.h"

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

template <typename Enum, typename Names>
Enum chosen(Protocol protocol, std::optional<Enum> asked, Enum own, const Names& names,
            std::string_view option) {
  if (!asked) return own;
  if (!allows(protocol, *asked)) {
    fail(ErrorKind::usage, "protocol {} has no {} {}; leave it out", kProtocolNames.name(protocol), option,
         names.name(*asked));
  }
  return *asked;
}

std::string joined(const std::vector<std::string_view>& rows, std::string_view between) {
  return fmt::format("{}", fmt::join(rows, between));
}

// Documents in another form, one at a time.
class FormedTexts {
 public:
  FormedTexts(const TextSource& source, TextForm form) : source_(source), form_(form) {}

  std::optional<Document> next() {
    while (waiting_.empty()) {
      std::optional<Document> document = source_();
      if (!document) return document;
      take(std::move(*document));
    }
    Document first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

 private:
  void take(Document document) {
    switch (form_) {
      case TextForm::as_is: waiting_.push_back(std::move(document)); break;
      case TextForm::lines: take_parts(document.name, text_rows(document.text)); break;
      case TextForm::rows: waiting_.push_back({document.name, joined(text_rows(document.text), "")}); break;
      case TextForm::rows_nn:
        waiting_.push_back({document.name, joined(text_rows(document.text), "\n\n")});
        break;
      case TextForm::pages: take_parts(document.name, wikitext_pages(document.text)); break;
    }
  }
  template <typename Parts>
  void take_parts(const std::string& name, const Parts& parts) {
    std::int64_t number = 0;
    for (const auto& part : parts)
      waiting_.push_back({fmt::format("{}:{}", name, ++number), std::string(part)});
  }

  const TextSource& source_;
  TextForm form_;
  std::deque<Document> waiting_;
};

// Encodes, cuts to the token limit, plans the windows, and counts: what every protocol does alike.
class PlanBuilder {
 public:
  PlanBuilder(EvalPlan& plan, const Tokenizer& tokenizer, const PlanOptions& options)
      : plan_(plan), facts_(facts_of(plan.protocol)), tokenizer_(tokenizer), options_(options) {}

  bool wants_more() const {
    return (options_.max_samples == 0 || plan_.samples_seen < options_.max_samples) &&
           (options_.max_tokens == 0 || plan_.tokens < options_.max_tokens);
  }

  // One sample; it is kept only if it has ids.
  void add(Document document) {
    Passage passage;
    passage.name = std::move(document.name);
    if (plan_.protocol == Protocol::lm_eval) {
      passage.counts = wikitext_counts(document.text);
      document.text = wikitext_detokenize(document.text);
    }
    passage.ids = encode(document.text);
    if (options_.max_tokens > 0) {
      const auto room = static_cast<std::size_t>(options_.max_tokens - plan_.tokens);
      if (passage.ids.size() > room) {
        passage.ids.resize(room);
        passage.counts.reset();  // those of the whole page
      }
    }
    passage.bos = plan_.bos_id;
    plan_passage(plan_.protocol, passage, options_.context, options_.stride, plan_.bos);
    if (plan_.estimator != Estimator::labels) passage.window_weights.clear();
    if (passage.ids.empty()) return;
    plan_.tokens += static_cast<std::int64_t>(passage.ids.size());
    plan_.samples_used += passage.windows.empty() ? 0 : 1;
    plan_.windows += static_cast<std::int64_t>(passage.windows.size());
    for (const Window& window : passage.windows) {
      plan_.tokens_fed += window.tokens();
      plan_.tokens_scored += window.scored();
    }
    plan_.passages.push_back(std::move(passage));
  }

 private:
  std::vector<TokenId> encode(std::string_view text) {
    const auto start = std::chrono::steady_clock::now();
    EncodeOptions encoding;
    encoding.parse_special = facts_.parse_special;
    std::vector<TokenId> ids = tokenizer_.encode(text, encoding);
    plan_.encode_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    plan_.text_bytes += static_cast<std::int64_t>(text.size());
    return ids;
  }

  EvalPlan& plan_;
  const ProtocolFacts& facts_;
  const Tokenizer& tokenizer_;
  const PlanOptions& options_;
};

// The harness takes EOS where there is no BOS; nothing else does.
TokenId require_bos(const Tokenizer& tokenizer, Protocol protocol) {
  if (const auto bos = tokenizer.bos()) return *bos;
  if (const auto eos = tokenizer.eos(); eos && protocol == Protocol::lm_eval) return *eos;
  fail(ErrorKind::bad_input, "protocol {} feeds a BOS token here, and the tokenizer names none",
       kProtocolNames.name(protocol));
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
    rows.push_back(row.find_first_not_of(" \t\r\n") == std::string_view::npos ? std::string_view() : row);
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
  chosen(protocol, options.estimator, facts.estimator, kEstimatorNames, "--average");
  chosen(protocol, options.text, facts.text, kTextFormNames, "--text");
  chosen(protocol, options.bos, facts.bos, kBosRuleNames, "--bos");
}

EvalPlan make_plan(Protocol protocol, const TextSource& texts, const Tokenizer& tokenizer,
                   const PlanOptions& options) {
  const ProtocolFacts& facts = facts_of(protocol);
  check_plan_options(protocol, options);
  EvalPlan plan;
  plan.protocol = protocol;
  plan.estimator = chosen(protocol, options.estimator, facts.estimator, kEstimatorNames, "--average");
  plan.text = chosen(protocol, options.text, facts.text, kTextFormNames, "--text");
  plan.bos = chosen(protocol, options.bos, facts.bos, kBosRuleNames, "--bos");
  if (plan.bos != BosRule::none) plan.bos_id = require_bos(tokenizer, protocol);

  PlanBuilder builder(plan, tokenizer, options);
  FormedTexts formed(texts, plan.text);
  if (facts.joined) {
    const std::string_view between =
        protocol == Protocol::hf_strided && plan.text != TextForm::rows ? "\n\n" : "";
    std::optional<Document> whole;
    while (options.max_samples == 0 || plan.samples_seen < options.max_samples) {
      std::optional<Document> next = formed.next();
      if (!next) break;
      ++plan.samples_seen;
      if (whole)
        whole->text.append(between).append(next->text);
      else
        whole = std::move(next);
    }
    if (whole) builder.add(std::move(*whole));
    if (plan.samples_used > 0) plan.samples_used = plan.samples_seen;
  } else {
    while (builder.wants_more()) {
      std::optional<Document> document = formed.next();
      if (!document) break;
      ++plan.samples_seen;
      builder.add(std::move(*document));
    }
  }
  std::vector<TokenId> all;
  all.reserve(static_cast<std::size_t>(plan.tokens));
  for (const Passage& passage : plan.passages) all.insert(all.end(), passage.ids.begin(), passage.ids.end());
  plan.token_sha256 = token_stream_sha256(all);
  return plan;
}

}  // namespace attn
