// The dump: logits of chosen positions as JSON, each number in the shortest form that reads back as the same
// f32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/attnlogits/comparison.h"
#include "apps/attnlogits/prompts.h"

namespace attn {

struct PositionChoice {
  bool all = false;
  std::vector<std::int64_t> positions;  // negative ones count from the end
};

// "last", "all", or numbers with commas. Throws Error{usage}.
PositionChoice parse_positions(const std::string& text);
// Of a prompt of that length. Throws Error{bad_input} for a position outside of it.
std::vector<std::int64_t> positions_of(const PositionChoice& choice, std::int64_t tokens);

// {"schema": "attnlogits-dump/1", "model", "device", "dtype", "path", "prompts": [{"prompt", "ids",
// "positions", "logits": {"flash": [[vocab numbers] a position], ...}}, ...]}; a logit that is not finite is
// null. Written beside the file and renamed when it is whole.
class LogitsDump {
 public:
  // Throws Error{bad_input} if the file cannot be written: before the work starts.
  explicit LogitsDump(std::filesystem::path path);
  ~LogitsDump();
  LogitsDump(const LogitsDump&) = delete;
  LogitsDump& operator=(const LogitsDump&) = delete;

  // `header`: a JSON object without its closing brace, the first part of the file.
  void begin(const std::string& header);
  void add(Transformer& transformer, const LogitsPrompt& prompt, const std::vector<std::int64_t>& positions,
           const std::vector<LogitsVariant>& variants);
  void finish();

 private:
  void check_stream();

  std::filesystem::path path_, partial_;
  std::ofstream file_;
  bool first_ = true, finished_ = false;
};

}  // namespace attn
