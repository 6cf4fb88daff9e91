// The lists of variants and pairs.
#include "apps/attnppl/variants.h"

#include <algorithm>

namespace attn {

std::string PplVariant::text() const {
  if (reference) return "f32 reference";
  return path == ForwardPath::decode ? mode + " decode" : mode;
}

ScoringPlan plan_scoring(const std::vector<std::string>& modes, const std::vector<ForwardPath>& paths,
                         bool reference) {
  const auto asked = [&](ForwardPath path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
  };
  ScoringPlan plan;
  const auto place_of = [&](std::string_view mode, ForwardPath path) {
    const auto found =
        std::find_if(plan.variants.begin(), plan.variants.end(), [&](const PplVariant& variant) {
          return variant.mode == mode && variant.path == path && !variant.reference;
        });
    return static_cast<std::size_t>(found - plan.variants.begin());
  };
  for (const std::string& mode : modes) plan.variants.push_back({mode, ForwardPath::prefill});
  if (asked(ForwardPath::decode)) {
    for (const std::string& mode : modes) plan.variants.push_back({mode, ForwardPath::decode});
  }
  const std::size_t judged = plan.variants.size();
  if (reference) plan.variants.push_back({"reference", ForwardPath::prefill, true});
  for (const ForwardPath path : {ForwardPath::prefill, ForwardPath::decode}) {
    for (std::size_t i = 1; asked(path) && i < modes.size(); ++i)
      plan.pairs.push_back({place_of(modes.front(), path), place_of(modes[i], path)});
  }
  for (std::size_t i = 0; asked(ForwardPath::decode) && i < modes.size(); ++i)
    plan.pairs.push_back({place_of(modes[i], ForwardPath::prefill), place_of(modes[i], ForwardPath::decode)});
  for (std::size_t i = 0; reference && i < judged; ++i) plan.pairs.push_back({judged, i});
  return plan;
}

}  // namespace attn
