// The layout of limits.
#include "apps/roofline_fields.h"

namespace attn {

Fields ceiling_fields(const Ceilings& ceilings) {
  Fields spread;
  Fields fields;
  const auto add = [&](std::string_view key, std::string_view short_key,
                       const std::optional<Ceiling>& ceiling) {
    const bool known = ceiling && ceiling->best > 0;
    fields[key] = known ? Value(ceiling->best) : Value();
    if (known) spread[short_key] = ceiling->spread();
  };
  add("copy_gb_s", "copy", ceilings.copy_gb_s);
  add("read_gb_s", "read", ceilings.read_gb_s);
  if (ceilings.read_gb_s) fields["read_bytes"] = ceilings.read_bytes;
  if (!ceilings.read_gb_s) fields["read_reason"] = ceilings.read_reason;
  add("product_tflops", "product", ceilings.product_tflops);
  if (ceilings.product_tflops) fields["product_size"] = ceilings.product_size;
  if (!ceilings.product_tflops) fields["product_reason"] = ceilings.product_reason;
  fields["cache_bytes"] = ceilings.cache_bytes;
  fields["spread"] = spread;
  return fields;
}

void add_limit(ResultRecord& record, const std::string& name, const Limit& limit,
               std::optional<double> measured_ms) {
  const auto ms = limit.ms();
  record.metrics["limit_" + name + "_ms"] = ms;
  if (!ms) {
    record.metrics["limit_" + name + "_reason"] =
        limit.memory_reason.empty() ? limit.product_reason : limit.memory_reason;
    return;
  }
  record.metrics["limit_" + name + "_by"] = limit.by();
  if (!measured_ms || *measured_ms <= 0) return;
  record.metrics[name + "_share_of_limit"] = *ms / *measured_ms;
  if (const auto words = too_fast(limit, *measured_ms, name + "_ms")) {
    record.outcome = Outcome::error;
    record.reason = record.reason.empty() ? *words : record.reason + "; " + *words;
  }
}

}  // namespace attn
