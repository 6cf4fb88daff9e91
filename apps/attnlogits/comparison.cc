// Blocks of rows, all variants side by side.
#include "apps/attnlogits/comparison.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {

namespace {

constexpr TokenId kNoTarget = -1;

std::int64_t rows_at_once(const Transformer& transformer) { return transformer.shape().logits_rows; }

}  // namespace

std::string LogitsVariant::text() const { return path == ForwardPath::decode ? mode + " decode" : mode; }

void LogitsPair::add(std::int64_t position, const LogitComparison& row) {
  const RowDivergence compared = row_divergence(row);
  divergence.add(position, compared);
  if (!compared.first_nonfinite && !compared.same_argmax && !first_top1_change) first_top1_change = position;
}

std::vector<LogitsVariant> plan_variants(const std::vector<std::string>& modes, ForwardPath path,
                                         bool with_reference) {
  std::vector<std::string> all = modes;
  if (with_reference && std::find(all.begin(), all.end(), "reference") == all.end())
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
      if (i != *reference) pairs.push_back({*reference, i, {}, {}});
    }
  }
  std::vector<std::size_t> others;
  for (const std::size_t i : on_path) {
    if (variants[i].mode != "reference") others.push_back(i);
  }
  for (std::size_t i = 1; i < others.size(); ++i) pairs.push_back({others.front(), others[i], {}, {}});
  if (path == ForwardPath::decode) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      for (std::size_t j = 0; j < variants.size(); ++j) {
        if (variants[i].mode == variants[j].mode && variants[i].path == ForwardPath::prefill &&
            variants[j].path == ForwardPath::decode)
          pairs.push_back({i, j, {}, {}});
      }
    }
  }
  return pairs;
}

LogitsComparison::LogitsComparison(Transformer& transformer, std::size_t variants, std::size_t pairs)
    : transformer_(transformer) {
  Device& device = *transformer.platform().device;
  const std::int64_t rows = rows_at_once(transformer);
  logits_ = device.allocate_tensor(DType::f32,
                                   {static_cast<std::int64_t>(variants) * rows, transformer.config().vocab},
                                   MemoryUse::logits);
  targets_ = device.allocate_tensor(DType::i32, {rows}, MemoryUse::other);
  room_ = device.allocate(static_cast<std::size_t>(rows) * pairs * sizeof(LogitComparison), MemoryUse::other);
}

void LogitsComparison::add(std::span<const TokenId> ids, const std::vector<LogitsVariant>& variants,
                           std::vector<LogitsPair>& pairs, std::vector<LogitsPair>& totals,
                           const std::function<bool()>& stop) {
  if (totals.size() != pairs.size() ||
      static_cast<std::int64_t>(variants.size()) * rows_at_once(transformer_) != logits_.view.extent(0))
    fail(ErrorKind::internal, "{} pairs of {} variants have no room", pairs.size(), variants.size());
  Device& device = *transformer_.platform().device;
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t block = rows_at_once(transformer_);
  std::vector<LogitComparison> compared;
  std::vector<TokenId> targets;
  for (std::int64_t begin = 0; begin < tokens; begin += block) {
    if (stop && stop()) return;
    const std::int64_t rows = std::min(block, tokens - begin);
    targets.clear();
    for (std::int64_t i = begin + 1; i <= begin + rows; ++i)
      targets.push_back(i < tokens ? ids[static_cast<std::size_t>(i)] : kNoTarget);
    const TensorView target_view = targets_.view.slice(0, 0, rows);
    device.upload(target_view.data, targets.data(), target_view.bytes());
    const auto logits_of = [&](std::size_t variant) {
      return logits_.view.slice(0, static_cast<std::int64_t>(variant) * block, rows);
    };
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const TensorView logits = transformer_.logits(variants[i].states.view.slice(0, begin, rows));
      device.copy(logits_of(i).data, logits.data, logits.bytes());
    }
    auto* room = static_cast<LogitComparison*>(room_.data());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      transformer_.platform().ops->compare_logits(logits_of(pairs[i].base), logits_of(pairs[i].other),
                                                  target_view, room + static_cast<std::int64_t>(i) * rows);
    }
    compared.resize(pairs.size() * static_cast<std::size_t>(rows));
    device.download(compared.data(), room, compared.size() * sizeof(LogitComparison));
    for (std::size_t i = 0; i < compared.size(); ++i) {
      const auto pair = i / static_cast<std::size_t>(rows);
      pairs[pair].add(begin + static_cast<std::int64_t>(i) % rows, compared[i]);
      const Divergence& total = totals[pair].divergence;
      totals[pair].add(total.rows + total.nonfinite_rows, compared[i]);
    }
  }
}

std::vector<float> host_logits(Transformer& transformer, const TensorView& states) {
  const TensorView logits = transformer.logits(states);
  std::vector<float> values(static_cast<std::size_t>(logits.shape.elements()));
  transformer.platform().device->download(values.data(), logits.data, logits.bytes());
  return values;
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
