// Tables and the JSON array.
#include "apps/attnlogits/report.h"

#include <cmath>
#include <cstdio>

namespace attn {

std::string share_text(double share) { return fmt::format("{:.2f}%", std::floor(share * 1e4) / 100); }

LogitsReport::LogitsReport(bool json) : json_(json) {
  if (json_) fmt::print("[");
}

void LogitsReport::line(const std::string& text) { fmt::print(json_ ? stderr : stdout, "{}\n", text); }

void LogitsReport::header() const {
  fmt::print("{:<38} {:>11} {:>11} {:>11} {:>11} {:>8} {:>8} {:>9}\n", "", "max diff", "mean diff", "max KL",
             "mean KL", "top 1", "top 5", "nonfinite");
}

void LogitsReport::prompt(const LogitsPrompt& prompt) {
  if (json_) return;
  const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
  fmt::print("\n\"{}\"{}: {} token{}{}\n", prompt.label, prompt.file.empty() ? "" : " (" + prompt.file + ")",
             tokens, tokens == 1 ? "" : "s",
             prompt.all_tokens > tokens ? fmt::format(" of {} (--max-length)", prompt.all_tokens) : "");
  header();
}

void LogitsReport::all(std::size_t prompts, std::int64_t positions) {
  in_totals_ = true;
  if (json_) return;
  fmt::print("\nall {} prompts: {} tokens\n", prompts, positions);
  header();
}

void LogitsReport::pair(const LogitsVariant& base, const LogitsVariant& other, const LogitsPair& pair,
                        const ResultRecord& record) {
  const Divergence& d = pair.divergence;
  if (json_) {
    if (in_totals_) return;
    // The keys of system B's compare_logits first.
    Fields object{
        {"prompt", *record.parameters.find("prompt")}, {"max_diff", nullptr}, {"mean_diff", nullptr}};
    for (const char* key : {"mode", "path", "against", "against_path", "prompt_file", "prompt_tokens"})
      object[key] = *record.parameters.find(key);
    for (const Field& field : record.metrics.entries) object[field.key] = field.value;
    fmt::print("{}{}", first_ ? "\n" : ",\n", to_json(object));
    first_ = false;
    return;
  }
  const std::string name = fmt::format("  {} vs {}", other.text(), base.text());
  const std::string nonfinite =
      d.first_nonfinite_position ? fmt::format("at {}", *d.first_nonfinite_position) : "none";
  if (d.rows == 0) {
    fmt::print("{:<38} {:>11} {:>11} {:>11} {:>11} {:>8} {:>8} {:>9}\n", name, "-", "-", "-", "-", "-", "-",
               nonfinite);
    return;
  }
  fmt::print("{:<38} {:>11.3e} {:>11.3e} {:>11.3e} {:>11.3e} {:>8} {:>8} {:>9}\n", name, d.max_diff,
             d.mean_diff(), d.max_kl, d.mean_kl(), share_text(d.argmax_agreement()),
             share_text(d.top5_agreement()), nonfinite);
}

void LogitsReport::finish() {
  if (json_) fmt::print("\n]\n");
  std::fflush(stdout);
}

}  // namespace attn
