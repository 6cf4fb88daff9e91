// The table of protocols, and one function for each.
#include "lib/eval/protocols.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "lib/core/error.h"

namespace attn {
namespace {

// Encodes, cuts to the token limit, and counts: what every protocol does alike.
class PlanBuilder {
 public:
  PlanBuilder(EvalPlan& plan, const Tokenizer& tokenizer, const PlanOptions& options)
      : plan_(plan), tokenizer_(tokenizer), options_(options) {}

  bool wants_more() const {
    return (options_.max_samples == 0 || plan_.samples_seen < options_.max_samples) &&
           (options_.max_tokens == 0 || plan_.tokens < options_.max_tokens);
  }

  std::vector<TokenId> encode(std::string_view text) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<TokenId> ids = tokenizer_.encode(text);
    plan_.encode_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    plan_.text_bytes += static_cast<std::int64_t>(text.size());
    return ids;
  }

  // One sample; it is kept only if something of it is scored.
  void add(std::string name, std::vector<TokenId> ids, std::int64_t context, std::int64_t stride) {
    ++plan_.samples_seen;
    if (options_.max_tokens > 0) {
      const auto room = static_cast<std::size_t>(options_.max_tokens - plan_.tokens);
      ids.resize(std::min(ids.size(), room));
    }
    std::vector<Window> windows = plan_windows(static_cast<std::int64_t>(ids.size()), context, stride);
    if (windows.empty() && ids.empty()) return;
    plan_.tokens += static_cast<std::int64_t>(ids.size());
    plan_.samples_used += windows.empty() ? 0 : 1;
    plan_.windows += static_cast<std::int64_t>(windows.size());
    for (const Window& window : windows) {
      plan_.tokens_fed += window.tokens();
      plan_.tokens_scored += window.scored();
    }
    plan_.passages.push_back({std::move(name), std::move(ids), std::move(windows)});
  }

 private:
  EvalPlan& plan_;
  const Tokenizer& tokenizer_;
  const PlanOptions& options_;
};

void plan_full(PlanBuilder& builder, const TextSource& texts, const PlanOptions& options) {
  while (builder.wants_more()) {
    std::optional<Document> document = texts();
    if (!document) return;
    builder.add(std::move(document->name), builder.encode(document->text), options.context, options.stride);
  }
}

void plan_legacy_rows(PlanBuilder& builder, const TextSource& texts, const PlanOptions& options) {
  while (builder.wants_more()) {
    const std::optional<Document> document = texts();
    if (!document) return;
    std::int64_t line = 0;
    for (const std::string_view row : text_rows(document->text)) {
      if (!builder.wants_more()) return;
      std::vector<TokenId> ids = builder.encode(row);
      ids.resize(std::min(ids.size(), static_cast<std::size_t>(options.context)));
      if (ids.size() < 2) ids.clear();
      builder.add(fmt::format("{}:{}", document->name, ++line), std::move(ids), options.context,
                  options.context);
    }
  }
}

struct ProtocolRow {
  Protocol protocol;
  Estimator estimator;
  void (*plan)(PlanBuilder&, const TextSource&, const PlanOptions&);
};

constexpr std::array kProtocols{
    ProtocolRow{Protocol::full, Estimator::token_mean, plan_full},
    ProtocolRow{Protocol::legacy_rows, Estimator::passage_mean, plan_legacy_rows},
};

}  // namespace

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

EvalPlan make_plan(Protocol protocol, const TextSource& texts, const Tokenizer& tokenizer,
                   const PlanOptions& options) {
  const auto row = std::find_if(kProtocols.begin(), kProtocols.end(),
                                [&](const ProtocolRow& candidate) { return candidate.protocol == protocol; });
  if (row == kProtocols.end())
    fail(ErrorKind::internal, "no plan for protocol {}", kProtocolNames.name(protocol));
  plan_windows(0, options.context, options.stride);  // its check, before any text is read
  EvalPlan plan;
  plan.protocol = protocol;
  plan.estimator = row->estimator;
  PlanBuilder builder(plan, tokenizer, options);
  row->plan(builder, texts, options);
  std::vector<TokenId> all;
  all.reserve(static_cast<std::size_t>(plan.tokens));
  for (const Passage& passage : plan.passages) all.insert(all.end(), passage.ids.begin(), passage.ids.end());
  plan.token_sha256 = token_stream_sha256(all);
  return plan;
}

}  // namespace attn
