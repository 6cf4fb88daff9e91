// PassageReader: a data set under a protocol, one passage at a time, with what was read so far.
#pragma once

#include <memory>

#include "lib/eval/protocols.h"

namespace attn {

// What a protocol and its options come to with a tokenizer.
struct ProtocolSettings {
  Protocol protocol = Protocol::full;
  Estimator estimator = Estimator::tokens;
  TextForm text = TextForm::as_is;
  BosRule bos = BosRule::none;
  std::optional<TokenId> bos_id;  // where the rule is not `none`
};

struct ReadTotals {
  std::int64_t samples_seen = 0;  // texts read
  std::int64_t samples_used = 0;  // of them, with at least one scored token
  std::int64_t passages = 0;      // that have ids
  std::int64_t tokens = 0;        // in all passages, BOS not counted
  std::int64_t windows = 0;
  std::int64_t tokens_fed = 0;  // over all windows, BOS counted: what the model computes
  std::int64_t tokens_scored = 0;
  std::int64_t text_bytes = 0;  // that were encoded
  double encode_seconds = 0;    // of encoding alone
  // Of the ids of all passages, end to end, without BOS; nothing before the end.
  std::optional<std::string> token_sha256;
};

// Holds one text in the form that the protocol wants, never the data set (protocols that join all texts make
// one of it). To be used from one thread at a time; a reader may run ahead of its user in another
// (ReadAhead), who then asks for the totals when that one has ended.
class PassageReader {
 public:
  // The tokenizer and what the source refers to must outlive it. Throws Error{usage} as check_plan_options()
  // does, before any text is read, and Error{bad_input} where the tokenizer has no BOS that is needed.
  PassageReader(Protocol protocol, TextSource texts, const Tokenizer& tokenizer, const PlanOptions& options);
  ~PassageReader();
  PassageReader(PassageReader&&) noexcept;
  PassageReader& operator=(PassageReader&&) noexcept;

  const ProtocolSettings& settings() const;
  // The next passage that has ids (its windows may be none), or nothing at the end. Throws what the source
  // and the tokenizer throw, and Error{bad_input} where a text is too short for the protocol.
  std::optional<Passage> next();
  const ReadTotals& totals() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Bytes that a passage takes, for the bound of a queue.
std::size_t memory_bytes(const Passage& passage);

}  // namespace attn
