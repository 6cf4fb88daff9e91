// Numerical health of a variant: windows fed once through HealthAttention, as a table and as fields of a
// record.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/eval/final_states.h"
#include "lib/eval/health_attention.h"
#include "lib/results/value.h"

namespace attn {

struct HealthReport {
  std::string variant;  // as it is printed: "flash", "flash decode"
  DType dtype = DType::f32;
  std::int64_t windows = 0;  // that were fed; the last one may be that of the value that is not finite
  std::int64_t longest = 0;  // tokens of the longest
  std::vector<LayerHealth> layers;
  std::optional<NonFiniteValue> first_nonfinite;  // its position is that in the window `windows - 1`

  // What f16 would make infinite in any layer: "scores", "products before the scale", "values".
  std::vector<std::string> overflows_f16() const;
};

// Feeds each window (token ids, not empty) from an empty cache; ends at the first one with a value that is
// not finite. Takes memory for a transformer of one sequence of the longest window. Throws what
// Transformer::reserve throws.
HealthReport watch_health(Platform& platform, const Model& model, AttentionBackend& attention,
                          ForwardPath path, std::span<const std::vector<TokenId>> windows,
                          const std::string& variant);

// Lines for people, each with its line end.
std::string health_table(const HealthReport& report);
Fields health_fields(const HealthReport& report);

}  // namespace attn
