// Limits from ceilings.
#include "lib/measure/roofline.h"

#include <algorithm>

#include <fmt/format.h>

namespace attn {
namespace {

constexpr double kTolerance = 0.02;
constexpr double kMostTolerance = 0.9;

std::optional<Ceiling> faster(const std::optional<Ceiling>& a, const std::optional<Ceiling>& b) {
  if (!a || !b) return a ? a : b;
  return a->best >= b->best ? a : b;
}

std::optional<std::string> too_fast_for(const std::optional<double>& part_ms, double tolerance,
                                        const char* what, double measured_ms, const std::string& name) {
  if (!part_ms || measured_ms >= *part_ms * (1 - tolerance)) return std::nullopt;
  return fmt::format(
      "{} is {:.4g} ms, but {} alone take {:.4g} ms at the fastest rate measured on this device (tolerance "
      "{:.1f} %): "
      "the time, the count of work, or that rate is wrong",
      name, measured_ms, what, *part_ms, 100 * tolerance);
}

}  // namespace

std::optional<double> Limit::ms() const {
  if (memory_unknown) return std::nullopt;
  if (!product_ms || !memory_ms) return product_ms ? product_ms : memory_ms;
  return std::max(*product_ms, *memory_ms);
}

const char* Limit::by() const {
  if (memory_unknown) return "";
  if (!product_ms || !memory_ms) return product_ms ? "products" : memory_ms ? "memory" : "";
  return *product_ms >= *memory_ms ? "products" : "memory";
}

Limit limit_of(const Work& work, const Ceilings& ceilings) {
  Limit limit;
  if (ceilings.product_tflops && ceilings.product_tflops->best > 0) {
    limit.product_ms = work.flops / (ceilings.product_tflops->best * 1e9);
    limit.product_tolerance = std::min(kTolerance + ceilings.product_tflops->spread(), kMostTolerance);
  } else {
    limit.product_reason = ceilings.product_reason;
  }
  const auto cache = static_cast<double>(ceilings.cache_bytes);
  const double footprint = work.footprint > 0 ? work.footprint : work.bytes;
  if (ceilings.cache_bytes == 0) {
    limit.memory_reason = "the size of the last-level cache is not known, so the work may be in it";
  } else if (footprint <= cache) {
    limit.memory_reason = fmt::format(
        "{:.1f} MB of data fit in the last-level cache of {:.1f} MB, which is faster than the memory",
        footprint * 1e-6, cache * 1e-6);
  } else if (!ceilings.read_gb_s || ceilings.read_gb_s->best <= 0) {
    limit.memory_reason = ceilings.read_reason;
  } else {
    limit.memory_ms = work.bytes / (ceilings.read_gb_s->best * 1e6);
    limit.memory_tolerance =
        std::min(kTolerance + ceilings.read_gb_s->spread() + cache / footprint, kMostTolerance);
  }
  limit.memory_unknown = !limit.memory_ms && memory_bound(work, ceilings);
  return limit;
}

bool memory_bound(const Work& work, const Ceilings& ceilings) {
  const double gb_s = ceilings.read_gb_s ? ceilings.read_gb_s->best : ceilings.copy_gb_s.best;
  const double tflops = ceilings.product_tflops ? ceilings.product_tflops->best : 0;
  if (gb_s <= 0 || tflops <= 0) return true;
  return work.bytes / (gb_s * 1e9) >= work.flops / (tflops * 1e12);
}

std::optional<std::string> too_fast(const Limit& limit, double measured_ms, const std::string& name) {
  if (auto words = too_fast_for(limit.product_ms, limit.product_tolerance, "its products", measured_ms, name))
    return words;
  return too_fast_for(limit.memory_ms, limit.memory_tolerance, "its bytes", measured_ms, name);
}

Ceilings fastest(const Ceilings& a, const Ceilings& b) {
  Ceilings out = a;
  if (b.copy_gb_s.best > a.copy_gb_s.best) out.copy_gb_s = b.copy_gb_s;
  out.read_gb_s = faster(a.read_gb_s, b.read_gb_s);
  out.product_tflops = faster(a.product_tflops, b.product_tflops);
  out.read_bytes = std::max(a.read_bytes, b.read_bytes);
  out.product_size = std::max(a.product_size, b.product_size);
  return out;
}

}  // namespace attn
