// The grid of shapes against mode reference.
#include "tests/conformance/grid_check.h"

#include <algorithm>
#include <cmath>

#include "tests/conformance/attention_cases.h"

namespace attn::conformance {

namespace {

// The largest Euclidean norm of a row of q or k, and the largest |v|.
struct Sizes {
  double q = 0, k = 0, v = 0;
};

template <typename Visit>
void for_rows(const Placement& place, const Visit& visit) {
  for (std::int64_t b = 0; b < place.shape[0]; ++b)
    for (std::int64_t t = 0; t < place.shape[1]; ++t)
      for (std::int64_t h = 0; h < place.shape[2]; ++h)
        visit(b, t, h, static_cast<std::size_t>(place.at(b, t, h, 0)));
}

double longest_row(const Placement& place, const std::vector<float>& data) {
  float most = 0;
  for_rows(place, [&](auto, auto, auto, std::size_t first) {
    float squares = 0;
    for (std::int64_t d = 0; d < place.shape[3]; ++d) {
      const float x = data[first + static_cast<std::size_t>(d)];
      squares += x * x;
    }
    most = std::max(most, squares);
  });
  return std::sqrt(static_cast<double>(most));
}

Sizes sizes_of(const Inputs& inputs) {
  Sizes sizes{longest_row(inputs.q, inputs.q_data), longest_row(inputs.k, inputs.k_data), 0};
  float most = 0;
  for_rows(inputs.v, [&](auto, auto, auto, std::size_t first) {
    for (std::int64_t d = 0; d < inputs.v.shape[3]; ++d)
      most = std::max(most, std::fabs(inputs.v_data[first + static_cast<std::size_t>(d)]));
  });
  sizes.v = static_cast<double>(most);
  return sizes;
}

struct Errors {
  double most = 0, sum = 0, largest = 0, sizes = 0;  // of |out - truth|, and of |truth|
};

Errors errors_of(const Placement& place, const AttentionResult& result, const AttentionResult& truth) {
  Errors e;
  for_rows(place, [&](auto, auto, auto, std::size_t first) {
    for (std::size_t at = first; at < first + static_cast<std::size_t>(place.shape[3]); ++at) {
      const auto expected = static_cast<double>(truth.out[at]);
      const double error = std::fabs(static_cast<double>(result.out[at]) - expected);
      e.most = error <= e.most ? e.most : error;  // NaN is kept
      e.sum += error;
      e.largest = std::max(e.largest, std::fabs(expected));
      e.sizes += std::fabs(expected);
    }
  });
  return e;
}

bool sound(const AttentionProblem& p, const Placement& place, const AttentionResult& truth) {
  bool all = true;
  for_rows(place, [&](std::int64_t b, std::int64_t i, std::int64_t h, std::size_t first) {
    const bool sees = !p.causal || i + p.kv_len - p.q_len >= 0;
    const float lse = truth.lse[static_cast<std::size_t>((b * p.q_heads + h) * p.q_len + i)];
    all = all && (sees ? std::isfinite(lse) : std::isinf(lse) && lse < 0);
    for (std::size_t at = first; at < first + static_cast<std::size_t>(place.shape[3]); ++at)
      all = all && std::isfinite(truth.out[at]) && (sees || truth.out[at] == 0.0F);
  });
  return all;
}

// The first number beyond its bound, in words; empty: none. `bound` takes the place in out and the truth
// there.
template <typename Bound>
std::string beyond(const AttentionProblem& p, const Placement& place, const AttentionResult& result,
                   const AttentionResult& truth, double largest_score, const Bound& bound) {
  std::string found;
  for_rows(place, [&](std::int64_t b, std::int64_t i, std::int64_t h, std::size_t first) {
    if (!found.empty()) return;
    for (std::int64_t d = 0; d < place.shape[3]; ++d) {
      const std::size_t at = first + static_cast<std::size_t>(d);
      const auto value = static_cast<double>(result.out[at]);
      const auto expected = static_cast<double>(truth.out[at]);
      if (within(value, expected, bound(at, std::fabs(expected)))) continue;
      found = fmt::format("out[{}, {}, {}, {}] is {} instead of {} (bound {})", b, i, h, d, value, expected,
                          bound(at, std::fabs(expected)));
      return;
    }
    const auto row = static_cast<std::size_t>((b * p.q_heads + h) * p.q_len + i);
    const auto lse = static_cast<double>(result.lse[row]);
    const auto expected = static_cast<double>(truth.lse[row]);
    if (!within(lse, expected, 1e-5 + 0x1p-21 * (std::fabs(expected) + largest_score)))
      found = fmt::format("lse[{}, {}, {}] is {} instead of {}", b, h, i, lse, expected);
  });
  return found;
}

void check_narrow(Platform& platform, const Case& test, const Inputs& inputs, DType dtype,
                  const AttentionResult& result, const AttentionResult& truth, const std::string& where,
                  double largest_score, Failures& failures) {
  const AttentionProblem& p = test.problem;
  const Placement place = out_placement(p);
  Inputs positive = inputs;
  for (float& value : positive.v_data) value = std::fabs(value);
  const AttentionResult weighed =
      AttentionRun(platform, platform.backend("reference"), test, positive, DType::f32).run();
  const double u = unit_roundoff(dtype);
  const double factor = p.kv_len > 4096 ? 1.3 : 1.1;
  const std::string found = beyond(p, place, result, truth, largest_score, [&](std::size_t at, double size) {
    return factor * u * (static_cast<double>(weighed.out[at]) + size) + 1e-5;
  });
  if (!found.empty()) failures.push_back(where + ": " + found);

  const AttentionResult naive =
      AttentionRun(platform, platform.backend("baseline"), test, inputs, dtype).run();
  const Errors ours = errors_of(place, result, truth);
  const Errors theirs = errors_of(place, naive, truth);
  // Where few keys are seen the naive result may be exact by luck: one rounding of the largest output, and a
  // quarter of one on average, which is less than what rounding the output alone costs, are always allowed.
  if (!(ours.most <= 2 * theirs.most + u * ours.largest))
    failures.push_back(fmt::format("{}: largest error {}, naive {}", where, ours.most, theirs.most));
  if (!(ours.sum <= 2 * theirs.sum + 0.25 * u * ours.sizes))
    failures.push_back(fmt::format("{}: sum of errors {}, naive {}", where, ours.sum, theirs.sum));
}

}  // namespace

GridResult check_grid(Platform& platform, AttentionBackend& backend, const GridPart& part) {
  GridResult all;
  int index = 0;
  for (const Case& test : grid_cases()) {
    const AttentionProblem& p = test.problem;
    if (static_cast<double>(p.q_len) * p.kv_len * p.q_heads * p.batch * p.head_dim >
        static_cast<double>(part.most_products))
      continue;
    if (index++ % part.every != 0) continue;
    const Placement place = out_placement(p);
    for (const DType dtype : dtypes_of(backend, p)) {
      const bool narrow = dtype != DType::f32;
      // Mode baseline rounds scores of 16 bits, so (a) is not its bound, and (b) compares it with itself.
      if (narrow ? backend.name() == "baseline" : platform.device->info().threads == 0 && index % 3 != 0)
        continue;
      // The longest: one type for each mask.
      if (narrow && p.kv_len > 1000 && p.causal != (dtype == DType::bf16)) continue;
      const Inputs inputs = make_inputs(test, dtype);
      AttentionRun run(platform, backend, test, inputs, dtype);
      const AttentionResult result = run.run();
      append(all.failures, result.failures);
      const AttentionResult truth =
          AttentionRun(platform, platform.backend("reference"), test, inputs, DType::f32).run();
      ++all.checked;
      if (!sound(p, place, truth)) {
        all.failures.push_back(run.where() + ": the reference itself is not sound");
        continue;
      }
      const Sizes sizes = sizes_of(inputs);
      const double scores = sizes.q * sizes.k * static_cast<double>(p.scale);  // Cauchy and Schwarz
      if (narrow) {
        check_narrow(platform, test, inputs, dtype, result, truth, run.where(), scores, all.failures);
        continue;
      }
      // As rounding_tolerance() in attention_data.cc, with the largest sizes of all rows.
      const double score = 0x1p-24 * (4 + std::sqrt(p.head_dim)) * scores;
      const double bound = (std::expm1(2 * score) + 0x1p-24 * (8 + std::sqrt(p.kv_len))) * sizes.v;
      const std::string found =
          beyond(p, place, result, truth, scores, [&](std::size_t, double) { return bound; });
      if (!found.empty()) all.failures.push_back(run.where() + ": " + found);
    }
  }
  return all;
}

}  // namespace attn::conformance
