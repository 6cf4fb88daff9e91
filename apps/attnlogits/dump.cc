// JSON written as it is computed: `all` positions of a large vocabulary do not fit in memory as text.
#include "apps/attnlogits/dump.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/core/error.h"
#include "lib/results/value.h"

namespace attn {

PositionChoice parse_positions(const std::string& text) {
  if (text == "all") return {true, {}};
  if (text == "last") return {false, {-1}};
  return {false, parse_integers(text, "--positions")};
}

std::vector<std::int64_t> positions_of(const PositionChoice& choice, std::int64_t tokens) {
  std::vector<std::int64_t> positions;
  if (choice.all) {
    for (std::int64_t i = 0; i < tokens; ++i) positions.push_back(i);
    return positions;
  }
  for (const std::int64_t asked : choice.positions) {
    const std::int64_t position = asked < 0 ? tokens + asked : asked;
    if (position < 0 || position >= tokens)
      fail(ErrorKind::bad_input, "--positions {}: the prompt has only {} tokens", asked, tokens);
    positions.push_back(position);
  }
  return positions;
}

LogitsDump::LogitsDump(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  file_.open(partial_, std::ios::binary | std::ios::trunc);
  if (!file_ || std::filesystem::is_directory(path_)) {
    fail(ErrorKind::bad_input, "--dump {}: cannot be written there; name a file in a folder that exists",
         path_.string());
  }
}

LogitsDump::~LogitsDump() {
  if (finished_) return;
  file_.close();
  std::error_code error;
  std::filesystem::remove(partial_, error);
}

void LogitsDump::check_stream() {
  if (!file_) fail(ErrorKind::bad_input, "--dump {}: writing failed; is the disk full?", path_.string());
}

void LogitsDump::begin(const std::string& header) { file_ << header << ",\n\"prompts\": ["; }

void LogitsDump::add(Transformer& transformer, const LogitsPrompt& prompt,
                     const std::vector<std::int64_t>& positions, const std::vector<LogitsVariant>& variants) {
  file_ << (first_ ? "\n" : ",\n");
  first_ = false;
  file_ << "{\"prompt\": " << to_json(prompt.label) << ", \"ids\": " << to_json(Value(prompt.ids))
        << ", \"positions\": " << to_json(Value(positions)) << ", \"logits\": {";
  const auto vocab = static_cast<std::size_t>(transformer.config().vocab);
  for (const LogitsVariant& variant : variants) {
    file_ << (&variant == variants.data() ? "\n " : ",\n ") << to_json(variant.text()) << ": [";
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::vector<float> row = host_logits(transformer, variant.states.view.slice(0, positions[i], 1));
      fmt::memory_buffer text;
      for (std::size_t token = 0; token < vocab; ++token) {
        const auto out = std::back_inserter(text);
        if (token > 0) fmt::format_to(out, ", ");
        if (std::isfinite(row[token])) {
          fmt::format_to(out, "{}", row[token]);
        } else {
          fmt::format_to(out, "null");
        }
      }
      file_ << (i == 0 ? "\n  [" : ",\n  [");
      file_.write(text.data(), static_cast<std::streamsize>(text.size()));
      file_ << "]";
    }
    file_ << "]";
  }
  file_ << "}}";
  check_stream();
}

void LogitsDump::finish() {
  file_ << "\n]}\n";
  file_.close();
  check_stream();
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) fail(ErrorKind::bad_input, "--dump {}: {}", path_.string(), error.message());
  finished_ = true;
}

}  // namespace attn
