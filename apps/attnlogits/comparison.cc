// Blocks of rows, all variants side by side.
#include "apps/attnlogits/comparison.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {

std::string LogitsVariant::text() const { return path == ForwardPath::decode ? mode + " decode" : mode; }

std::vector<LogitsVariant> plan_variants(const std::vector<std::string>& modes, ForwardPath path,
                                         bool has_reference) {
  std::vector<std::string> all = modes;
  if (has_reference && std::find(all.begin(), all.end(), "reference") == all.end())
    all.emplace_back("reference");
  std::vector<LogitsVariant> variants;
  variants.reserve(2 * all.size());
  for (const std::string& mode : all) variants.push_back({mode, path, "", {}});
  if (path == ForwardPath::decode) {
    for (const std::string& mode : all) variants.push_back({mode, ForwardPath::prefill, "", {}});
  }
  return variants;
}

std::vector<LogitsPair> plan_pairs(const std::vector<LogitsVariant>& variants, ForwardPath path) {
  std::vector<std::size_t> on_path;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].path == path) on_path.push_back(i);
  }
  const auto reference = std::find_if(on_path.begin(), on_path.end(),
                                      [&](std::size_t i) { return variants[i].mode == "reference"; });
  std::vector<LogitsPair> pairs;
  if (reference != on_path.end()) {
    for (const std::size_t i : on_path) {
      if (i != *reference) pairs.push_back({*reference, i, {}});
    }
  }
  std::vector<std::size_t> others;
  for (const std::size_t i : on_path) {
    if (variants[i].mode != "reference") others.push_back(i);
  }
  for (std::size_t i = 1; i < others.size(); ++i) pairs.push_back({others.front(), others[i], {}});
  if (path == ForwardPath::decode) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      for (std::size_t j = 0; j < variants.size(); ++j) {
        if (variants[i].mode == variants[j].mode && variants[i].path == ForwardPath::prefill &&
            variants[j].path == ForwardPath::decode)
          pairs.push_back({i, j, {}});
      }
    }
  }
  return pairs;
}

std::vector<float> host_logits(Transformer& transformer, const TensorView& states) {
  const TensorView logits = transformer.logits(states);
  std::vector<float> values(static_cast<std::size_t>(logits.shape.elements()));
  transformer.platform().device->download(values.data(), logits.data, logits.bytes());
  return values;
}

void compare_variants(Transformer& transformer, const std::vector<LogitsVariant>& variants,
                      std::vector<LogitsPair>& pairs, const std::function<bool()>& stop) {
  if (variants.empty()) fail(ErrorKind::internal, "there is nothing to compare");
  const std::int64_t tokens = variants.front().states.view.extent(0);
  const std::int64_t block = transformer.shape().logits_rows;
  const auto vocab = static_cast<std::size_t>(transformer.config().vocab);
  for (std::int64_t begin = 0; begin < tokens; begin += block) {
    if (stop && stop()) return;
    const std::int64_t rows = std::min(block, tokens - begin);
    std::vector<std::vector<float>> logits;  // [variant][rows * vocab]
    logits.reserve(variants.size());
    for (const LogitsVariant& variant : variants)
      logits.push_back(host_logits(transformer, variant.states.view.slice(0, begin, rows)));
    for (LogitsPair& pair : pairs) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::size_t at = static_cast<std::size_t>(row) * vocab;
        pair.divergence.add(begin + row, compare_rows({logits[pair.base].data() + at, vocab},
                                                      {logits[pair.other].data() + at, vocab}));
      }
    }
  }
}

std::vector<std::string> complaints(const Divergence& divergence, const LogitsThresholds& thresholds) {
  std::vector<std::string> found;
  if (divergence.first_nonfinite_position) {
    found.push_back(fmt::format("{} positions have logits that are not finite, the first is position {}",
                                divergence.nonfinite_rows, *divergence.first_nonfinite_position));
  }
  const auto at_most = [&](const char* what, double value, const std::optional<double>& limit,
                           const char* flag) {
    if (limit && value > *limit)
      found.push_back(fmt::format("the {} {:.6g} is more than {} {:.6g}", what, value, flag, *limit));
  };
  at_most("largest difference", divergence.max_diff, thresholds.max_diff, "--max-diff");
  at_most("mean difference", divergence.mean_diff(), thresholds.mean_diff, "--mean-diff");
  at_most("largest KL divergence", divergence.max_kl, thresholds.max_kl, "--max-kl");
  if (thresholds.min_agreement && divergence.rows > 0 &&
      divergence.argmax_agreement() < *thresholds.min_agreement) {
    found.push_back(fmt::format("the argmax agreement {:.6g} is less than --min-agreement {:.6g}",
                                divergence.argmax_agreement(), *thresholds.min_agreement));
  }
  return found;
}

}  // namespace attn
