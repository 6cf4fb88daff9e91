// Roofline: the least time that work can take on a device, from the ceilings measured in the same run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lib/measure/ceiling.h"

namespace attn {

struct Ceilings {
  Ceiling copy_gb_s;
  std::optional<Ceiling> read_gb_s;  // none: not measured, and read_reason says why
  std::string read_reason;
  std::size_t read_bytes = 0;  // of the buffer that was read
  std::optional<Ceiling> product_tflops;
  std::string product_reason;
  int product_size = 0;         // n of the n x n x n product
  std::size_t cache_bytes = 0;  // of the last-level cache; 0: not known
};

struct Work {
  double flops = 0;
  double bytes = 0;      // that must come from memory or go there, each once
  double footprint = 0;  // bytes that are touched before any is touched again; 0: `bytes`
};

// What keeps the work from being faster.
struct Limit {
  std::optional<double> product_ms, memory_ms;         // flops and bytes at their ceilings
  double product_tolerance = 0, memory_tolerance = 0;  // a share by which a figure may still be faster
  std::string product_reason, memory_reason;           // why the part is missing

  bool memory_unknown = false;  // the memory part is missing and would be the larger one

  // The larger part, and which it is: "products" or "memory"; nothing where it is not known.
  std::optional<double> ms() const;
  const char* by() const;
};

// The memory part is missing where the footprint fits in the last-level cache, which may be faster than the
// memory. Tolerance: 2 %, and the spread of the ceiling's repetitions; for the memory also the share of the
// footprint that the cache could have kept.
Limit limit_of(const Work& work, const Ceilings& ceilings);

// Whether the bytes take longer than the operations, at the rate of reading, or else of copying; true where a
// rate is missing.
bool memory_bound(const Work& work, const Ceilings& ceilings);

// Nothing, or in words that `measured_ms` of the figure `name` is faster than its limit allows: then the
// figure, the count or the ceiling is wrong.
std::optional<std::string> too_fast(const Limit& limit, double measured_ms, const std::string& name);

// The faster of two measurements of the same device.
Ceilings fastest(const Ceilings& a, const Ceilings& b);

}  // namespace attn
