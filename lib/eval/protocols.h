// Protocols: how a data set becomes passages and windows, each a published or own recipe under a name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/eval/perplexity.h"
#include "lib/text/document.h"
#include "lib/text/tokenizer.h"

namespace attn {

// full: each document in windows of `context` tokens that advance by `stride`; every token but a document's
// first is scored once. legacy_rows: each line is a sample of its own, cut to `context` tokens; lines of
// fewer than two tokens count as samples but are not used; exp of the mean over lines of each line's mean
// loss. A line of five tokens weighs as much as one of four hundred and none sees the line before it, so the
// figure is comparable to nothing but itself.
enum class Protocol : unsigned char { full, legacy_rows };
inline constexpr auto kProtocolNames =
    name_table<Protocol>({{Protocol::full, "full"}, {Protocol::legacy_rows, "legacy-rows"}});

struct PlanOptions {
  std::int64_t context = 1024;
  std::int64_t stride = 512;     // full only
  std::int64_t max_samples = 0;  // documents (full) or rows (legacy_rows), from the first on; 0: all
  std::int64_t max_tokens = 0;   // of all passages together, from the first on; 0: all
};

// Everything that is to be scored, in memory: 4 bytes a token.
struct EvalPlan {
  Protocol protocol = Protocol::full;
  Estimator estimator = Estimator::token_mean;
  std::vector<Passage> passages;
  std::int64_t samples_seen = 0;  // documents or rows read
  std::int64_t samples_used = 0;  // of them, with at least one scored token
  std::int64_t tokens = 0;        // in all passages
  std::int64_t windows = 0;
  std::int64_t tokens_fed = 0;  // over all windows: what the model computes
  std::int64_t tokens_scored = 0;
  std::int64_t text_bytes = 0;  // that were encoded
  double encode_seconds = 0;    // of encoding alone
  std::string token_sha256;     // of the ids of all passages, end to end
};

// The texts, one at a time; nothing at the end.
using TextSource = std::function<std::optional<Document>()>;

// Throws Error{usage} for a context below 2 or a stride out of range, and what the source throws.
EvalPlan make_plan(Protocol protocol, const TextSource& texts, const Tokenizer& tokenizer,
                   const PlanOptions& options);

// The lines of a text as data-set libraries of WikiText give them: a blank line is an empty string, any other
// keeps its leading space and its line end. A last line without a line end counts.
std::vector<std::string_view> text_rows(std::string_view text);

}  // namespace attn
