// Listings.
#include "apps/attnbench/listings.h"

#include <filesystem>
#include <numeric>

#include "lib/model/generate.h"
#include "lib/model/presets.h"
#include "lib/results/table.h"

namespace attn {
namespace {

std::string found_at(const std::string& name) {
  const ModelSource source = find_model(name);
  return source.dir ? source.how + ": " + source.dir->string() : "not on this machine";
}

std::string millions(std::int64_t count) { return fmt::format("{:.1f} M", static_cast<double>(count) / 1e6); }

}  // namespace

std::string list_models() {
  Table table;
  table.header = {"name", "family", "parameters", "context", "where"};
  const auto add = [&](const std::string& name, const ModelConfig& config) {
    table.rows.push_back({name, std::string(kFamilyNames.name(config.family)),
                          millions(config.parameter_count()), std::to_string(config.max_positions),
                          found_at(name)});
  };
  for (const auto& entry : std::filesystem::directory_iterator(source_path("models"))) {
    const std::string name = entry.path().filename().string();
    if (std::filesystem::exists(entry.path() / "config.json") && !find_preset(name))
      add(name, read_config(entry.path()));
  }
  for (const Preset& preset : presets()) add(std::string(preset.name), preset.config);
  return format_table(table, TableFormat::text);
}

std::string list_kernels(const Platform& platform) {
  Table table;
  table.header = {"mode", "kernel", "head dims", "dtypes", "what"};
  for (const auto& backend : platform.attention) {
    for (const KernelRow& row : backend->kernels())
      table.rows.push_back({std::string(backend->name()), row.name, row.head_dims, row.dtypes, row.what});
  }
  return platform.device->info().spec + " (" + platform.device->info().description + ")\n" +
         format_table(table, TableFormat::text);
}

std::string list_cases(const std::vector<BenchCase>& cases, const BenchOptions& options,
                       const Platform& platform, const ModelConfig& config, DType dtype) {
  Table table;
  table.header = {"mode",       "batch",         "prompt",         "prompt tokens",
                  "new tokens", "predicted MiB", "of which scores"};
  const auto mib = [](std::size_t bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
  };
  for (const BenchCase& one : cases) {
    for (const std::string& mode : options.modes) {
      const AttentionBackend& attention = platform.backend(mode);
      const auto calls = generation_calls(attention, one.prompt_tokens(), one.new_tokens);
      const BytesByUse bytes = predict_memory(config, dtype, one.shape(), attention, calls);
      table.rows.push_back({mode, std::to_string(one.batch), one.prompt.label,
                            std::to_string(one.prompt_tokens()), std::to_string(one.new_tokens),
                            mib(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})),
                            mib(bytes[static_cast<std::size_t>(MemoryUse::scores)])});
    }
  }
  return format_table(table, TableFormat::text);
}

}  // namespace attn
