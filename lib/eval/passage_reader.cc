// Texts in the form that a protocol wants; their ids; their windows.
#include "lib/eval/passage_reader.h"

#include <bit>
#include <chrono>
#include <deque>

#include "lib/core/error.h"
#include "lib/core/sha256.h"
#include "lib/eval/protocol_windows.h"
#include "lib/eval/wikitext_pages.h"

namespace attn {
namespace {

static_assert(std::endian::native == std::endian::little, "token_stream_sha256() is of little-endian words");

std::string joined(const std::vector<std::string_view>& rows, std::string_view between) {
  return fmt::format("{}", fmt::join(rows, between));
}

// Documents in another form, one at a time.
class FormedTexts {
 public:
  FormedTexts(TextSource source, TextForm form) : source_(std::move(source)), form_(form) {}

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
      case TextForm::lines:
        take_parts(document.name, text_rows(document.text), [&](std::string_view) { return document.title; });
        break;
      case TextForm::rows: take_joined(document, ""); break;
      case TextForm::rows_nn: take_joined(document, "\n\n"); break;
      case TextForm::pages: take_parts(document.name, wikitext_pages(document.text), page_title); break;
    }
  }
  void take_joined(const Document& document, std::string_view between) {
    waiting_.push_back({document.name, joined(text_rows(document.text), between), document.title});
  }
  template <typename Parts, typename Title>
  void take_parts(const std::string& name, const Parts& parts, const Title& title_of) {
    std::int64_t number = 0;
    for (const auto& part : parts)
      waiting_.push_back({fmt::format("{}:{}", name, ++number), std::string(part), title_of(part)});
  }

  TextSource source_;
  TextForm form_;
  std::deque<Document> waiting_;
};

// The harness takes EOS where there is no BOS; nothing else does.
TokenId require_bos(const Tokenizer& tokenizer, Protocol protocol) {
  if (const auto bos = tokenizer.bos()) return *bos;
  if (const auto eos = tokenizer.eos(); eos && protocol == Protocol::lm_eval) return *eos;
  fail(ErrorKind::bad_input, "protocol {} feeds a BOS token here, and the tokenizer names none",
       kProtocolNames.name(protocol));
}

ProtocolSettings settle(Protocol protocol, const Tokenizer& tokenizer, const PlanOptions& options) {
  check_plan_options(protocol, options);
  const ProtocolFacts& facts = facts_of(protocol);
  ProtocolSettings out{protocol, options.estimator.value_or(facts.estimator),
                       options.text.value_or(facts.text), options.bos.value_or(facts.bos), std::nullopt};
  if (out.bos != BosRule::none) out.bos_id = require_bos(tokenizer, protocol);
  return out;
}

}  // namespace

struct PassageReader::State {
  ProtocolSettings settings;
  const ProtocolFacts& facts;
  PlanOptions options;
  const Tokenizer& tokenizer;
  FormedTexts texts;
  ReadTotals totals{};
  Sha256 sha{};

  State(Protocol protocol, TextSource source, const Tokenizer& with, const PlanOptions& asked)
      : settings(settle(protocol, with, asked)),
        facts(facts_of(protocol)),
        options(asked),
        tokenizer(with),
        texts(std::move(source), settings.text) {}

  bool wants_more() const {
    return (options.max_samples == 0 || totals.samples_seen < options.max_samples) &&
           (options.max_tokens == 0 || totals.tokens < options.max_tokens);
  }

  // The next sample; of a protocol that joins them, all as one.
  std::optional<Document> next_text() {
    if (!facts.joined) {
      if (!wants_more()) return std::nullopt;
      std::optional<Document> text = texts.next();
      if (text) ++totals.samples_seen;
      return text;
    }
    if (totals.samples_seen > 0) return std::nullopt;
    const std::string_view between =
        settings.protocol == Protocol::hf_strided && settings.text != TextForm::rows ? "\n\n" : "";
    std::optional<Document> whole;
    while (options.max_samples == 0 || totals.samples_seen < options.max_samples) {
      std::optional<Document> text = texts.next();
      if (!text) break;
      ++totals.samples_seen;
      if (whole) {
        whole->text.append(between).append(text->text);
        whole->title.clear();  // of the first alone
      } else {
        whole = std::move(text);
      }
    }
    return whole;
  }

  std::vector<TokenId> encode(std::string_view text) {
    const auto start = std::chrono::steady_clock::now();
    EncodeOptions encoding;
    encoding.parse_special = facts.parse_special;
    std::vector<TokenId> ids = tokenizer.encode(text, encoding);
    totals.encode_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    totals.text_bytes += static_cast<std::int64_t>(text.size());
    return ids;
  }

  // Encodes, cuts to the token limit, plans the windows, and counts: what every protocol does alike.
  Passage passage_of(Document document) {
    Passage passage;
    passage.name = std::move(document.name);
    passage.title = std::move(document.title);
    if (settings.protocol == Protocol::lm_eval) {
      passage.counts = wikitext_counts(document.text);
      document.text = wikitext_detokenize(document.text);
    }
    passage.ids = encode(document.text);
    if (options.max_tokens > 0) {
      const auto room = static_cast<std::size_t>(options.max_tokens - totals.tokens);
      if (passage.ids.size() > room) {
        passage.ids.resize(room);
        passage.counts.reset();  // those of the whole page
      }
    }
    passage.bos = settings.bos_id;
    plan_passage(settings.protocol, passage, options.context, options.stride, settings.bos);
    if (settings.estimator != Estimator::labels) passage.window_weights.clear();
    if (!passage.counts) passage.window_counts = count_scored_text(passage, tokenizer);
    return passage;
  }

  void count(const Passage& passage) {
    ++totals.passages;
    totals.tokens += static_cast<std::int64_t>(passage.ids.size());
    if (!passage.windows.empty())
      totals.samples_used = facts.joined ? totals.samples_seen : totals.samples_used + 1;
    totals.windows += static_cast<std::int64_t>(passage.windows.size());
    for (const Window& window : passage.windows) {
      totals.tokens_fed += window.tokens();
      totals.tokens_scored += window.scored();
    }
    sha.update(std::as_bytes(std::span(passage.ids)));
  }
};

PassageReader::PassageReader(Protocol protocol, TextSource texts, const Tokenizer& tokenizer,
                             const PlanOptions& options)
    : state_(std::make_unique<State>(protocol, std::move(texts), tokenizer, options)) {}
PassageReader::~PassageReader() = default;
PassageReader::PassageReader(PassageReader&&) noexcept = default;
PassageReader& PassageReader::operator=(PassageReader&&) noexcept = default;

const ProtocolSettings& PassageReader::settings() const { return state_->settings; }
const ReadTotals& PassageReader::totals() const { return state_->totals; }

std::optional<Passage> PassageReader::next() {
  while (std::optional<Document> text = state_->next_text()) {
    Passage passage = state_->passage_of(std::move(*text));
    if (passage.ids.empty()) continue;
    state_->count(passage);
    return passage;
  }
  if (!state_->totals.token_sha256) state_->totals.token_sha256 = state_->sha.finish();
  return std::nullopt;
}

std::size_t memory_bytes(const Passage& passage) {
  return sizeof passage + passage.name.capacity() + passage.title.capacity() +
         passage.ids.capacity() * sizeof(TokenId) + passage.windows.capacity() * sizeof(Window) +
         passage.window_weights.capacity() * sizeof(double) +
         passage.window_counts.capacity() * sizeof(TextCounts);
}

}  // namespace attn
