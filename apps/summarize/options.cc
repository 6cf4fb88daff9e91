// CLI11 to SummarizeOptions.
#include "apps/summarize/options.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "apps/guarded_main.h"
#include "apps/summarize/comparison.h"
#include "lib/core/build_info.h"
#include "lib/core/error.h"

namespace attn {
namespace {

// --format, else what the ending of --out says, else TSV.
TableFormat chosen_format(const std::string& format, const std::filesystem::path& out) {
  if (!format.empty()) return kTableFormats.parse(format, "--format");
  const auto extension = out.extension();
  if (extension == ".md") return TableFormat::markdown;
  if (extension == ".csv") return TableFormat::csv;
  if (extension == ".txt") return TableFormat::text;
  return TableFormat::tsv;
}

}  // namespace

std::optional<int> parse_summarize_options(int argc, const char* const* argv, SummarizeOptions& options) {
  CLI::App app{
      "Compares the baseline and flash records of result files, configuration by configuration: both figures "
      "side by\n"
      "side, speed-ups (baseline time / flash time, or flash rate / baseline rate), memory saved, the "
      "difference of\n"
      "perplexities, and geometric means. Only records that agree in every setting but the mode are "
      "compared; the\n"
      "others are listed on stderr with what differs. Repeated measurements of one configuration: their "
      "median.\n"
      "Exit code: 0 ok, 2 usage, 3 nothing comparable or unreadable input.",
      "summarize"};
  std::vector<std::string> paths;
  std::string format, out;
  std::vector<std::string> modes{options.base_mode, options.other_mode};
  app.add_option("paths", paths, "Result files (.jsonl, .json) or folders of them")->required();
  app.add_option(
      "--format", format,
      fmt::format("One of {}; default: what the ending of --out says, else tsv", kTableFormats.list()));
  app.add_option("--out", out, "Write the tables to this file, too");
  // One argument an option, so that a path may follow it; several by commas or by repeating the option.
  const auto add_list = [&](const std::string& name, std::vector<std::string>& list,
                            const std::string& help) {
    return app.add_option(name, list, help)->delimiter(',')->allow_extra_args(false);
  };
  add_list("--metric", options.metrics,
           fmt::format("Which metrics, by commas or repeated: {}", known_metrics()));
  add_list("--table", options.tables, fmt::format("Which tables: {}; default: all", known_tables()));
  add_list("--modes", modes, "The two modes to compare, the base first")->capture_default_str();
  app.set_version_flag("--version", std::string(build_info().version));
  if (const auto code = parse_command_line(app, argc, argv)) return code;
  options.paths.assign(paths.begin(), paths.end());
  options.out = out;
  options.format = chosen_format(format, options.out);
  if (modes.size() != 2 || modes[0] == modes[1]) {
    fail(ErrorKind::usage, "--modes {}: two different modes are needed, as in --modes baseline,flash",
         fmt::join(modes, ","));
  }
  options.base_mode = modes[0];
  options.other_mode = modes[1];
  return std::nullopt;
}

}  // namespace attn
