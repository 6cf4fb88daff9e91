// Feeding the windows, and the report of what was seen.
#include "apps/attnppl/health.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

std::vector<std::string> overflows(bool scores, bool products, bool values) {
  std::vector<std::string> out;
  if (scores) out.emplace_back("scores");
  if (products) out.emplace_back("products before the scale");
  if (values) out.emplace_back("values");
  return out;
}

std::string words(const std::vector<std::string>& overflows) {
  return overflows.empty() ? "no" : fmt::format("{}", fmt::join(overflows, ", "));
}

std::vector<std::string> overflows_of(const LayerHealth& layer) {
  return overflows(layer.scores_overflow_f16(), layer.products_overflow_f16(), layer.values_overflow_f16());
}

}  // namespace

std::vector<std::string> HealthReport::overflows_f16() const {
  const auto any = [&](bool (LayerHealth::*overflow)() const) {
    return std::any_of(layers.begin(), layers.end(),
                       [&](const LayerHealth& layer) { return (layer.*overflow)(); });
  };
  return overflows(any(&LayerHealth::scores_overflow_f16), any(&LayerHealth::products_overflow_f16),
                   any(&LayerHealth::values_overflow_f16));
}

HealthReport watch_health(Platform& platform, const Model& model, AttentionBackend& attention,
                          ForwardPath path, std::span<const std::vector<TokenId>> windows,
                          const std::string& variant) {
  HealthReport report;
  report.variant = variant;
  report.dtype = model.weights.dtype;
  for (const std::vector<TokenId>& window : windows)
    report.longest = std::max(report.longest, static_cast<std::int64_t>(window.size()));
  const int tokens = static_cast<int>(report.longest);
  Transformer transformer(platform, model, {1, tokens, path == ForwardPath::prefill ? tokens : 1, 1});
  HealthAttention health(attention, *platform.device, model.config.layers);
  for (const std::vector<TokenId>& window : windows) {
    ++report.windows;
    final_states(transformer, health, window, path);
    if (health.first_nonfinite()) break;
  }
  report.layers = health.layers();
  report.first_nonfinite = health.first_nonfinite();
  return report;
}

std::string health_table(const HealthReport& report) {
  std::string out = fmt::format("health of {}, {}: {} window{} of at most {} tokens\n", report.variant,
                                kDTypeNames.name(report.dtype), report.windows,
                                report.windows == 1 ? "" : "s", report.longest);
  out += fmt::format("{:>5} {:>13} {:>5} {:>7} {:>7} {:>13} {:>13}  {}\n", "layer", "largest score", "head",
                     "query", "key", "f16 head-room", "largest value",
                     report.dtype == DType::f16 ? "overflows in f16" : "would overflow in f16");
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerHealth& layer = report.layers[i];
    const auto headroom = layer.f16_headroom();
    out += fmt::format("{:>5} {:>13.6g} {:>5} {:>7} {:>7} {:>13} {:>13.6g}  {}\n", i, layer.largest_score,
                       layer.head, layer.query, layer.key, headroom ? fmt::format("{:.4g}", *headroom) : "-",
                       layer.largest_value, words(overflows_of(layer)));
  }
  if (report.first_nonfinite) {
    out += fmt::format("window {}: {}\n", report.windows - 1, report.first_nonfinite->text());
  }
  return out;
}

Fields health_fields(const HealthReport& report) {
  Value::Array layers;
  std::optional<double> headroom;
  for (const LayerHealth& layer : report.layers) {
    const auto own = layer.f16_headroom();
    if (own) headroom = std::min(headroom.value_or(*own), *own);
    layers.push_back(Fields{{"largest_score", layer.largest_score},
                            {"head", layer.head},
                            {"query", layer.query},
                            {"key", layer.key},
                            {"f16_headroom", own},
                            {"largest_product", layer.largest_product},
                            {"largest_value", layer.largest_value},
                            {"overflows_f16", overflows_of(layer)}});
  }
  Fields out{{"windows", report.windows},  {"longest_window", report.longest},
             {"f16_headroom", headroom},   {"overflows_f16", report.overflows_f16()},
             {"first_nonfinite", nullptr}, {"layers", std::move(layers)}};
  if (const auto& found = report.first_nonfinite) {
    out["first_nonfinite"] = Fields{{"window", report.windows - 1},
                                    {"layer", found->layer},
                                    {"head", found->head},
                                    {"position", found->position},
                                    {"what", kHealthStageNames.name(found->stage)}};
  }
  return out;
}

}  // namespace attn
