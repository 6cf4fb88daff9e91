// The golden models (tools/make_goldens.py: Hugging Face transformers in float64) in every mode.
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/goldens/run_model.h"

using namespace attn;
using Json = nlohmann::json;

namespace {

// f32 against float64, relative to the largest logit. Each golden's "contrast" moves its logits by at least
// 3e-4, so a reader that ignored the variant would fail.
constexpr double kTolerance = 1e-4;

const std::filesystem::path kGoldens = std::filesystem::path(ATTN_SOURCE_DIR) / "tests/goldens";

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  INFO(path.string());
  REQUIRE(file.good());
  return Json::parse(file);
}

void check_golden(const std::string& folder) {
  const Json reference = read_json(kGoldens / folder / "reference.json");
  RunModel model(kGoldens / folder);
  const auto ids = reference.at("ids").get<std::vector<std::vector<TokenId>>>();
  const auto first = reference.at("logits").get<std::vector<std::vector<double>>>();
  const std::vector<std::vector<double>> last{reference.at("logits_last").get<std::vector<double>>()};
  const auto prompt = reference.at("greedy").at("prompt").get<std::vector<TokenId>>();
  const auto continuation = reference.at("greedy").at("ids").get<std::vector<TokenId>>();
  for (const std::string mode : {"reference", "baseline", "flash"}) {
    CAPTURE(folder, mode);
    CHECK(relative_to_scale(model.logits(ids[0], mode), first) < kTolerance);
    CHECK(relative_to_scale({model.logits(ids[1], mode).back()}, last) < kTolerance);
    CHECK(model.greedy(prompt, static_cast<int>(continuation.size()), mode) == continuation);
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const auto expected = reference.at("nll")[s].get<std::vector<double>>();
      const auto losses = model.losses(ids[s], mode);
      REQUIRE(losses.size() == expected.size());
      for (std::size_t i = 0; i < losses.size(); ++i)
        CHECK(losses[i] == Approx(expected[i]).margin(2e-4 * reference.at("logit_scale").get<double>()));
    }
  }
}

void check_family(const std::string& family) {
  int checked = 0;
  for (const Json& entry : read_json(kGoldens / "index.json")) {
    if (entry.at("family") != family) continue;
    check_golden(entry.at("name"));
    ++checked;
  }
  CHECK(checked >= 8);
}

}  // namespace

TEST_CASE("gpt2 goldens agree in every mode") { check_family("gpt2"); }
TEST_CASE("gpt_neox goldens agree in every mode") { check_family("gpt_neox"); }
TEST_CASE("llama goldens agree in every mode") { check_family("llama"); }
