// Trained checkpoints beside the checkout: logits, losses, perplexities and greedy text of other
// implementations.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "lib/tensor/dtype_names.h"
#include "tests/catch.h"
#include "tests/goldens/run_model.h"
#include "tests/rounding.h"

using namespace attn;
using Json = nlohmann::json;

namespace {

const std::filesystem::path kCheckpoints =
    std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data/checkpoints";

Json reference_of(const std::string& name) {
  return Json::parse(std::ifstream(kCheckpoints / name / "reference.json"));
}

// Of f32: measured differences are below a tenth of these.
constexpr double kLossMargin = 2e-3;
constexpr double kPerplexityMargin = 1e-4;

// Losses within 2e-3 in f32, and in 16 bits within twice what rounding does to the logits. Errors of tokens
// are independent, so their mean, and with it the perplexity, is much closer: 0.5 % in 16 bits.
void check_losses(RunModel& model, const Json& sequence, const std::string& mode, DType dtype = DType::f32) {
  const auto ids = sequence.at("ids").get<std::vector<TokenId>>();
  const auto expected = sequence.at("next_token_nll_f64").get<std::vector<double>>();
  const std::vector<double> losses = model.losses(ids, mode);
  REQUIRE(losses.size() == expected.size());
  const bool narrow = dtype != DType::f32;
  double margin = kLossMargin;
  if (narrow) {
    double scale = 0;
    for (const auto& row : model.logits(ids, mode))
      for (const double logit : row) scale = std::max(scale, std::abs(logit));
    margin = 2 * logit_tolerance(dtype, model.config().layers) * scale;
  }
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == Approx(expected[i]).margin(margin));
    sum += losses[i];
  }
  const double perplexity = std::exp(sum / static_cast<double>(losses.size()));
  CHECK(perplexity ==
        Approx(sequence.at("ppl_f64").get<double>()).epsilon(narrow ? 5e-3 : kPerplexityMargin));
}

}  // namespace

TEST_CASE("stories260K has the losses and perplexities of its float64 reference in every mode") {
  if (!std::filesystem::exists(kCheckpoints)) ATTN_SKIP("../shared/data is not beside the checkout");
  Platform platform = open_platform(test_device());
  const Json reference = reference_of("stories260K");
  for (const DType dtype : dtypes_of(platform)) {
    RunModel model(platform, kCheckpoints / "stories260K/hf", dtype);
    for (const Json& sequence : reference.at("sequences")) {
      for (const std::string& mode : kEveryMode) {
        CAPTURE(sequence.at("name").get<std::string>(), mode, kDTypeNames.name(dtype));
        check_losses(model, sequence, mode, dtype);
      }
    }
  }
}

TEST_CASE("stories260K continues greedily with the text of llama2.c") {
  if (!std::filesystem::exists(kCheckpoints)) ATTN_SKIP("../shared/data is not beside the checkout");
  Platform platform = open_platform(test_device());
  RunModel model(platform, kCheckpoints / "stories260K/hf");
  const auto ids = reference_of("stories260K").at("sequences")[0].at("ids").get<std::vector<TokenId>>();
  const std::vector<TokenId> expected(ids.begin() + 1, ids.end());
  for (const std::string& mode : kEveryMode) {
    CAPTURE(mode);
    CHECK(model.greedy({ids.front()}, static_cast<int>(expected.size()), mode) == expected);
  }
}

TEST_CASE("gpt-nano-sort has the logits that PyTorch published") {
  if (!std::filesystem::exists(kCheckpoints)) ATTN_SKIP("../shared/data is not beside the checkout");
  Platform platform = open_platform(test_device());
  RunModel model(platform, kCheckpoints / "gpt-nano-sort/hf");
  const Json reference = reference_of("gpt-nano-sort");
  for (const Json& sequence : reference.at("sequences")) {
    const auto ids = sequence.at("ids").get<std::vector<TokenId>>();
    for (const std::string& mode : kEveryMode) {
      CAPTURE(mode);
      const auto ours = model.logits(ids, mode);
      CHECK(relative_to_scale(ours, sequence.at("logits_f64").get<std::vector<std::vector<double>>>()) <
            1e-5);
      CHECK(relative_to_scale(
                ours, sequence.at("logits_pytorch_fp32").get<std::vector<std::vector<double>>>()) < 1e-5);
      check_losses(model, sequence, mode);
    }
  }
}

TEST_CASE("tiny-random-gpt2 has the losses of its float64 reference in every mode") {
  if (!std::filesystem::exists(kCheckpoints)) ATTN_SKIP("../shared/data is not beside the checkout");
  Platform platform = open_platform(test_device());
  RunModel model(platform, kCheckpoints / "tiny-random-gpt2");
  const Json reference = reference_of("tiny-random-gpt2");
  for (const Json& sequence : reference.at("sequences")) {
    for (const std::string& mode : kEveryMode) {
      CAPTURE(mode);
      check_losses(model, sequence, mode);
      const auto last = model.logits(sequence.at("ids").get<std::vector<TokenId>>(), mode).back();
      const auto expected = sequence.at("last_logits_first8_f64").get<std::vector<double>>();
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(last[i] == Approx(expected[i]).margin(1e-5));
    }
  }
}
