// What attnlogits prints: tables for people, or one JSON array for programs.
#pragma once

#include "apps/attnlogits/comparison.h"
#include "apps/attnlogits/prompts.h"
#include "lib/results/record.h"

namespace attn {

// With JSON nothing but the array is on stdout; what people should read is on stderr.
class LogitsReport {
 public:
  explicit LogitsReport(bool json);

  void line(const std::string& text);  // of the run: the model, notes, where the records are
  void prompt(const LogitsPrompt& prompt);
  void pair(const LogitsVariant& base, const LogitsVariant& other, const LogitsPair& pair,
            const ResultRecord& record);
  void all(std::size_t prompts, std::int64_t positions);  // pairs over all prompts follow; not in the array
  void finish();

 private:
  void header() const;

  bool json_;
  bool first_ = true;  // object of the array
  bool in_totals_ = false;
};

// 0.99999 is "99.99%": only what is whole is 100 %.
std::string share_text(double share);

}  // namespace attn
