// CaseText: the passages of a case, read and tokenised in a thread ahead of the device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/attnppl/cases.h"
#include "lib/eval/passage_reader.h"
#include "lib/text/read_ahead.h"

namespace attn {

// What was read, known at the end.
struct TextFacts {
  ProtocolSettings settings;
  ReadTotals totals;
  // Of the texts; nothing where they were not read to the end.
  std::optional<std::string> dataset_sha256;
  std::optional<std::int64_t> published_words;  // of exactly these texts
  std::vector<std::string> notes;
  std::int64_t waits = 0;  // how often the next passage was not there when it was asked for; 1 is the first
};

class CaseText {
 public:
  // The case and the tokenizer must outlive it. Throws what PassageReader does.
  CaseText(const PplCase& ppl_case, const Tokenizer& tokenizer);

  const ProtocolSettings& settings() const { return settings_; }
  // As PassageReader::next().
  std::optional<Passage> next();
  // Ends the reading. Call it once, last.
  TextFacts finish();

 private:
  DatasetTexts texts_;
  PassageReader reader_;
  ProtocolSettings settings_;
  std::optional<ReadAhead<Passage>> ahead_;  // last: its thread uses the others
};

}  // namespace attn
