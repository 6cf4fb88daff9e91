// Divergence on rows made by hand, and the two paths to final states.
#include "lib/eval/divergence.h"

#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/eval/final_states.h"
#include "tests/catch.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

RowDivergence compare(const std::vector<float>& p, const std::vector<float>& q) { return compare_rows(p, q); }

}  // namespace

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
  CHECK_THROWS_AS(compare({1}, {1, 2}), Error);
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
