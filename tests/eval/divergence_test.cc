// Divergence on rows made by hand, and the two paths to final states.
#include "lib/eval/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "lib/eval/final_states.h"
#include "tests/catch.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

RowDivergence compare(const std::vector<float>& p, const std::vector<float>& q) { return compare_rows(p, q); }

std::vector<long double> softmax(const std::vector<float>& row) {
  const long double largest = *std::max_element(row.begin(), row.end());
  std::vector<long double> out;
  for (const float x : row) out.push_back(std::exp(static_cast<long double>(x) - largest));
  const long double sum = std::accumulate(out.begin(), out.end(), 0.0L);
  for (long double& x : out) x /= sum;
  return out;
}

// By the definitions, in long double.
RowDivergence naive(const std::vector<float>& p_row, const std::vector<float>& q_row, std::size_t target) {
  const auto p = softmax(p_row);
  const auto q = softmax(q_row);
  long double kl = 0, js = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const long double mean = (p[i] + q[i]) / 2;
    if (p[i] > 0) kl += p[i] * std::log(p[i] / q[i]);
    if (p[i] > 0) js += p[i] * std::log(p[i] / mean) / 2;
    if (q[i] > 0) js += q[i] * std::log(q[i] / mean) / 2;
  }
  const auto five = [](const std::vector<float>& row) {
    std::vector<std::size_t> places(row.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    places.resize(std::min<std::size_t>(5, places.size()));
    return places;
  };
  const auto p_five = five(p_row);
  const auto q_five = five(q_row);
  RowDivergence out;
  out.kl = static_cast<double>(kl);
  out.js = static_cast<double>(js);
  out.same_argmax = p_five[0] == q_five[0];
  out.top5_shared = static_cast<double>(std::count_if(
                        p_five.begin(), p_five.end(),
                        [&](std::size_t i) { return std::count(q_five.begin(), q_five.end(), i) > 0; })) /
                    static_cast<double>(p_five.size());
  out.target = {static_cast<double>(-std::log(p[target])), static_cast<double>(-std::log(q[target])),
                static_cast<double>(q[target] - p[target])};
  return out;
}

std::vector<float> random_row(std::size_t size, float deviation, std::uint64_t stream) {
  std::vector<float> row(size);
  for (std::size_t i = 0; i < size; ++i) row[i] = deviation * random_normal(19, stream, i);
  return row;
}

}  // namespace

TEST_CASE("every figure of two rows is the one of its definition from close rows to far ones") {
  for (const std::size_t size : {std::size_t{2}, std::size_t{5}, std::size_t{61}, std::size_t{4099}}) {
    for (const float noise : {1e-5F, 1e-3F, 0.05F, 0.2F, 1.0F, 20.0F}) {
      CAPTURE(size, noise);
      const std::vector<float> p = random_row(size, 4, size);
      std::vector<float> q = random_row(size, noise, size + 1);
      for (std::size_t i = 0; i < size; ++i) q[i] += p[i];
      const auto target = static_cast<TokenId>(size / 2);
      const RowDivergence row = compare_rows(p, q, target);
      const RowDivergence expected = naive(p, q, size / 2);
      CHECK(row.kl == Approx(expected.kl).epsilon(1e-7));  // long double has 1e-19 / 1e-11 of the smallest
      CHECK(row.js == Approx(expected.js).epsilon(1e-7));
      CHECK(row.same_argmax == expected.same_argmax);
      CHECK(row.top5_shared == Approx(expected.top5_shared));
      REQUIRE(row.target.has_value());
      CHECK(row.target->base_loss == Approx(expected.target->base_loss).epsilon(1e-12));
      CHECK(row.target->other_loss == Approx(expected.target->other_loss).epsilon(1e-12));
      CHECK(row.target->delta_p == Approx(expected.target->delta_p).epsilon(1e-9).margin(1e-15));
      const RowDivergence back = compare_rows(q, p, target);
      CHECK(back.js == Approx(row.js).epsilon(1e-9));
      CHECK(back.target->delta_p == -row.target->delta_p);
      CHECK(back.max_diff == row.max_diff);
    }
  }
}

TEST_CASE("equal rows give exactly zero however large their logits are") {
  for (const float size : {1e-30F, 1.0F, 100.0F, 1e30F, 3e38F}) {
    CAPTURE(size);
    std::vector<float> row = random_row(500, 0.2F, 7);
    for (float& x : row) x *= size;
    const RowDivergence same = compare_rows(row, row, 3);
    CHECK(same.kl == 0);
    CHECK(same.js == 0);
    CHECK(same.max_diff == 0);
    CHECK(same.mean_diff == 0);
    CHECK(same.same_argmax);
    CHECK(same.top5_shared == 1);
    CHECK(same.target->delta_p == 0);
    CHECK(same.target->other_loss == same.target->base_loss);
  }
}

TEST_CASE("of equal logits the first place counts in the argmax and in the five largest") {
  const std::vector<float> flat(8, 2.0F);
  std::vector<float> last_up = flat;
  last_up[7] = 2.5F;
  CHECK(compare(flat, flat).same_argmax);
  CHECK_FALSE(compare(flat, last_up).same_argmax);
  CHECK(compare(flat, last_up).top5_shared == Approx(0.8));  // 0 1 2 3 4 and 7 0 1 2 3
  CHECK(compare({1, 2, 3}, {3, 2, 1}).top5_shared == 1);     // fewer than five: all of them
  CHECK(compare({9, 8, 7, 6, 5, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 5, 6, 7, 8, 9}).top5_shared == 0);
}

TEST_CASE("rows that exclude each other have the largest divergence and no infinity") {
  const RowDivergence row =
      compare_rows(std::vector<float>{3e38F, -3e38F, 0}, std::vector<float>{-3e38F, 3e38F, 0}, 0);
  CHECK(row.js == Approx(std::log(2.0)).epsilon(1e-15));
  CHECK(row.js <= std::log(2.0));
  CHECK(row.kl == Approx(6e38).epsilon(1e-6));
  CHECK(row.target->delta_p == -1);
  CHECK(row.target->base_loss == 0);
  CHECK(std::isfinite(row.target->other_loss));
  CHECK(std::isfinite(row.max_diff));
}

TEST_CASE("equal rows do not diverge") {
  const RowDivergence row = compare({1, 2, 3}, {1, 2, 3});
  CHECK(row.max_diff == 0);
  CHECK(row.mean_diff == 0);
  CHECK(row.kl == 0);
  CHECK(row.same_argmax);
  CHECK_FALSE(row.first_nonfinite.has_value());
}

TEST_CASE("a shift of all logits is a difference but no divergence of the softmax") {
  const RowDivergence row = compare({1, 2, 3}, {11, 12, 13});
  CHECK(row.max_diff == 10);
  CHECK(row.mean_diff == 10);
  CHECK(row.kl == Approx(0).margin(1e-15));
  CHECK(row.same_argmax);
}

TEST_CASE("KL of two rows is that of their softmaxes and is not symmetric") {
  // p = (1/2, 1/2), q = (3/4, 1/4).
  const std::vector<float> p{0, 0};
  const std::vector<float> q{std::log(3.0F), 0};
  CHECK(compare(p, q).kl == Approx(0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25)).epsilon(1e-6));
  CHECK(compare(q, p).kl == Approx(0.75 * std::log(1.5) + 0.25 * std::log(0.5)).epsilon(1e-6));
  CHECK(compare(p, q).same_argmax);  // the first of equal maxima
  CHECK_FALSE(compare({0, 1}, {1, 0}).same_argmax);
}

TEST_CASE("large logits neither overflow nor lose the difference") {
  const RowDivergence row = compare({10000, 9990}, {10001, 9990});
  CHECK(std::isfinite(row.kl));
  CHECK(row.max_diff == 1);
  CHECK(row.mean_diff == 0.5);
}

TEST_CASE("the first logit that is not finite is found on either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(compare({0, nan, 1}, {0, 0, 1}).first_nonfinite == 1);
  CHECK(compare({0, 0, 1}, {0, 0, infinity}).first_nonfinite == 2);
  CHECK_FALSE(compare({0, nan}, {0, nan}).same_argmax);
  CHECK(compare({0, -infinity, 1}, {0, -infinity, 1}).first_nonfinite == 1);  // a mask is no logit
  CHECK(compare({nan, nan}, {nan, nan}).first_nonfinite == 0);
  CHECK_FALSE(compare_rows(std::vector<float>{nan, 1}, std::vector<float>{0, 1}, 1).target.has_value());
  CHECK_THROWS_AS(compare({1}, {1, 2}), Error);
  CHECK_THROWS_AS(compare({}, {}), Error);
  CHECK_THROWS_AS(compare_rows(std::vector<float>{1, 2}, std::vector<float>{1, 2}, 2), Error);
  CHECK_THROWS_AS(compare_rows(std::vector<float>{1, 2}, std::vector<float>{1, 2}, -1), Error);
}

TEST_CASE("many rows give the largest and the mean of each figure") {
  Divergence all;
  all.add(0, compare({0, 0}, {0, 0}));
  all.add(1, compare({0, 1}, {1, 0}));
  all.add(2, compare({0, std::numeric_limits<float>::quiet_NaN()}, {0, 0}));
  all.add(3, compare({0, 0}, {3, 1}));
  CHECK(all.rows == 3);
  CHECK(all.nonfinite_rows == 1);
  CHECK(all.first_nonfinite_position == 2);
  CHECK(all.max_diff == 3);
  CHECK(all.mean_diff() == Approx((0 + 1 + 2) / 3.0));
  CHECK(all.argmax_agreement() == Approx(2.0 / 3));
  CHECK(all.max_kl >= all.mean_kl());
}

TEST_CASE("final states by decode are those by prefill") {
  Platform platform = open_platform("cpu");
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    const auto ids = random_prompt(61, 17, 5);
    Transformer transformer(platform, model, {1, 17, 17, 17});
    const auto logits = [&](const std::string& mode, ForwardPath path) {
      const Tensor states = final_states(transformer, platform.backend(mode), ids, path);
      return download_logits(transformer, states.view.reshaped({1, 17, states.view.extent(1)}));
    };
    const auto expected = logits("reference", ForwardPath::prefill);
    for (const std::string& mode : kModes) {
      const auto decoded = logits(mode, ForwardPath::decode);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(decoded[i] == Approx(expected[i]).margin(2e-4));
    }
  }
}
