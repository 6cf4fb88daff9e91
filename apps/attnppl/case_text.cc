// The queue between text and device.
#include "apps/attnppl/case_text.h"

namespace attn {
namespace {

constexpr std::size_t kAheadBytes = std::size_t{64} << 20;

}  // namespace

CaseText::CaseText(const PplCase& ppl_case, const Tokenizer& tokenizer)
    : texts_(ppl_case.dataset),
      reader_(
          ppl_case.protocol, [this] { return texts_.next(); }, tokenizer, ppl_case.plan_options),
      settings_(reader_.settings()) {
  ahead_.emplace([this] { return reader_.next(); }, memory_bytes, kAheadBytes);
}

std::optional<Passage> CaseText::next() { return ahead_->next(); }

TextFacts CaseText::finish() {
  TextFacts facts;
  facts.waits = static_cast<std::int64_t>(ahead_->starved());
  ahead_.reset();
  facts.settings = settings_;
  facts.totals = reader_.totals();
  facts.notes = texts_.notes();
  if (!facts.totals.token_sha256) return facts;
  facts.published_words = texts_.published_words();
  facts.dataset_sha256 = texts_.sha256();
  return facts;
}

}  // namespace attn
