// Trained checkpoints beside the checkout: logits, losses, perplexities and greedy text of other
// implementations.
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

// f32: losses within 2e-3, perplexity within 1e-4 of itself; measured differences are below a tenth of these.
// 16 bits, u the unit roundoff: rounding the weights alone moves losses by up to 33 u and the perplexity by
// up to 0.04 % in the model's domain, 0.33 % out of it, and arithmetic rounds about as often again. Losses
// within 64 u; perplexity, a mean of independent errors, within 0.5 %, out of the domain 1 % in bf16.
void check_losses(RunModel& model, const Json& sequence, const std::string& mode, DType dtype = DType::f32) {
  const auto ids = sequence.at("ids").get<std::vector<TokenId>>();
  const auto expected = sequence.at("next_token_nll_f64").get<std::vector<double>>();
  const double expected_perplexity = sequence.at("ppl_f64");
  const double margin = dtype == DType::f32 ? 2e-3 : 64 * roundoff_of(dtype);
  const double perplexity_margin = dtype == DType::f32                                ? 1e-4
                                   : dtype == DType::bf16 && expected_perplexity > 10 ? 1e-2
                                                                                      : 5e-3;
  const std::vector<double> losses = model.losses(ids, mode);
  REQUIRE(losses.size() == expected.size());
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == Approx(expected[i]).margin(margin));
    sum += losses[i];
  }
  const double perplexity = std::exp(sum / static_cast<double>(losses.size()));
  CHECK(perplexity == Approx(expected_perplexity).epsilon(perplexity_margin));
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
