// attnppl compares modes, paths and the f32 reference in one run: faults that are planted must show.
#include <cmath>

#include "apps/attnppl/run.h"
#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"
#include "tests/cli/tiny_model.h"
#include "tests/eval/fault_attention.h"
#include "tests/model/checkpoint_files.h"

using namespace attn;
namespace fs = std::filesystem;

namespace {

const std::string kText =
    "The ferry leaves at six. Nobody on the quay looked up, and the rope fell into the water.\n"
    "Caf\xc3\xa9s open late there; by the time the kettle boils the light is gone.\n";

// One run of the program's function, on a device whose attention may be faulty.
struct Run {
  TemporaryFolder folder;
  Platform platform = open_platform("cpu");
  PplOptions options;
  std::vector<ResultRecord> records;

  Run() {
    options.model.model = make_tiny_model(folder.path() / "tiny");
    options.model.random_weights = true;
    options.model.device = "cpu";
    options.dataset = (folder.path() / "text.txt").string();
    options.out = (folder.path() / "out").string();
    options.max_length = 32;
    write_text_file(options.dataset, kText);
  }

  // Replaces a mode's backend by one that calls it through `call`.
  void plant(std::string_view mode, const FaultAttention::Call& call) {
    for (auto& backend : platform.attention) {
      if (backend->name() != mode) continue;
      sound_.push_back(std::move(backend));
      backend = std::make_unique<FaultAttention>(*sound_.back(), call);
    }
  }

  int exit_code() {
    const int code = run_ppl(options, platform);
    records = read_results(std::vector<fs::path>{options.out}).records;
    return code;
  }

  const ResultRecord& record(const std::string& mode, const std::string& path = "prefill") const {
    for (const ResultRecord& candidate : records) {
      if (display(*candidate.parameters.find("mode")) == mode &&
          display(*candidate.parameters.find("path")) == path)
        return candidate;
    }
    FAIL("no record of " << mode << " by " << path);
    return records.front();
  }

 private:
  std::vector<std::unique_ptr<AttentionBackend>> sound_;
};

const Fields& object(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->fields() != nullptr);
  return *value->fields();
}

double number(const Fields& fields, std::string_view key) {
  CAPTURE(std::string(key));
  const Value* value = fields.find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->number());
  return *value->number();
}

// The divergence of a record from `against` by `path`.
const Fields& divergence(const ResultRecord& record, const std::string& against, const std::string& path) {
  const Value* all = record.extra.find("divergence");
  REQUIRE(all != nullptr);
  for (const Value& one : *all->array()) {
    if (display(*one.fields()->find("against")) == against &&
        display(*one.fields()->find("against_path")) == path)
      return *one.fields();
  }
  FAIL("no divergence from " << against << " by " << path);
  return *all->array()->front().fields();
}

// A decode step over a cache forgets the last key.
void forget_a_key(AttentionBackend& inner, const AttentionProblem& problem, const AttentionTensors& tensors,
                  void* scores, void* workspace) {
  if (problem.q_len > 1 || problem.kv_len < 4) return inner.forward(problem, tensors, scores, workspace);
  AttentionProblem less = problem;
  AttentionTensors shorter = tensors;
  --less.kv_len;
  shorter.k = tensors.k.slice(1, 0, less.kv_len);
  shorter.v = tensors.v.slice(1, 0, less.kv_len);
  inner.forward(less, shorter, scores, workspace);
}

// Adds a little to every output, as a kernel with a wrong constant would.
void a_little_wrong(AttentionBackend& inner, const AttentionProblem& problem, const AttentionTensors& tensors,
                    void* scores, void* workspace) {
  AttentionProblem wrong = problem;
  wrong.scale *= 1.5F;
  inner.forward(wrong, tensors, scores, workspace);
}

// A checkpoint of GPT-NeoX with two layers whose second layer makes keys of 1e30.
std::string huge_model(const fs::path& folder) {
  make_tiny_model(folder);
  write_text_file(folder / "config.json",
                  R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 24,
                      "num_attention_heads": 3, "intermediate_size": 40, "vocab_size": 2048,
                      "max_position_embeddings": 64, "hidden_act": "gelu"})");
  test::TestCheckpoint checkpoint = test::neox_checkpoint();
  for (const char* name : {"gpt_neox.embed_in.weight", "embed_out.weight"}) {
    checkpoint.tensors.erase(name);
    checkpoint.add(name, {2048, 24});
  }
  const auto first = checkpoint.tensors;
  for (const auto& [name, tensor] : first) {
    const std::string stem = "gpt_neox.layers.0.";
    if (name.rfind(stem, 0) == 0)
      checkpoint.tensors["gpt_neox.layers.1." + name.substr(stem.size())] = tensor;
  }
  // [head, (q, k, v), dim]: queries and keys of head 1.
  auto& bias = checkpoint.tensors["gpt_neox.layers.1.attention.query_key_value.bias"].values;
  for (std::size_t i = 24; i < 40; ++i) bias[i] = 1e30F;
  std::ofstream(folder / "model.safetensors", std::ios::binary) << checkpoint.file();
  return folder.string();
}

}  // namespace

TEST_CASE("a fault of the KV cache shows against prefill of the same mode") {
  Run sound;
  sound.options.paths = {"decode"};
  REQUIRE(sound.exit_code() == 0);
  REQUIRE(sound.records.size() == 4);
  CHECK(number(divergence(sound.record("flash", "decode"), "flash", "prefill"), "max_diff") < 1e-4);
  CHECK(number(divergence(sound.record("flash", "decode"), "baseline", "decode"), "max_diff") < 1e-4);
  CHECK(number(sound.record("flash", "decode").metrics, "log_perplexity") ==
        Approx(number(sound.record("flash").metrics, "log_perplexity")).margin(1e-5));

  Run faulty;
  for (const char* mode : {"baseline", "flash"}) faulty.plant(mode, forget_a_key);
  faulty.options.paths = {"decode"};
  REQUIRE(faulty.exit_code() == 0);
  for (const char* mode : {"baseline", "flash"}) {
    const Fields& paths = divergence(faulty.record(mode, "decode"), mode, "prefill");
    CHECK(number(paths, "max_diff") > 1e-3);
    CHECK(number(paths, "max_kl") > 1e-8);
    CHECK(number(paths, "positions") == number(faulty.record(mode).metrics, "tokens_scored"));
  }
  // Both modes have it, so that they agree with each other.
  CHECK(number(divergence(faulty.record("flash", "decode"), "baseline", "decode"), "max_diff") < 1e-4);
  CHECK(number(faulty.record("flash").metrics, "log_perplexity") ==
        Approx(number(sound.record("flash").metrics, "log_perplexity")).epsilon(1e-12));
}

TEST_CASE("a mode further from f32 than the rule allows ends with 8 and its verdict") {
  Run sound;
  sound.options.reference = "f32";
  sound.options.paths = {"prefill", "decode"};
  REQUIRE(sound.exit_code() == 0);
  for (const char* path : {"prefill", "decode"}) {
    const Fields& rule = object(sound.record("flash", path).extra, "accuracy_rule");
    CHECK(display(*rule.find("verdict")) == "holds");
    CHECK(number(object(rule, "max_logit_diff"), "error") < number(object(rule, "max_logit_diff"), "limit"));
  }
  CHECK(number(divergence(sound.record("baseline"), "f32 reference", "prefill"), "max_diff") < 1e-4);

  Run faulty;
  faulty.plant("flash", a_little_wrong);
  faulty.options.reference = "f32";
  CHECK(faulty.exit_code() == 8);
  const ResultRecord& record = faulty.record("flash");
  CHECK(record.outcome == Outcome::ok);
  const Fields& rule = object(record.extra, "accuracy_rule");
  CHECK(display(*rule.find("verdict")) == "broken");
  CHECK(contains(display(*rule.find("reason")), "max_logit_diff"));
  CHECK(number(divergence(record, "f32 reference", "prefill"), "max_diff") > 1e-4);

  Run alone;  // nothing to compare the error with
  alone.options.reference = "f32";
  alone.options.modes = {"flash"};
  CHECK(alone.exit_code() == 0);
  CHECK(display(*object(alone.record("flash").extra, "accuracy_rule").find("verdict")) == "undecided");
}

TEST_CASE("a cache fault in every mode breaks the rule though the modes agree") {
  Run faulty;
  for (const char* mode : {"baseline", "flash"}) faulty.plant(mode, forget_a_key);
  faulty.options.reference = "f32";
  faulty.options.paths = {"decode"};
  CHECK(faulty.exit_code() == 8);
  CHECK(display(*object(faulty.record("flash", "decode").extra, "accuracy_rule").find("verdict")) ==
        "broken");
  CHECK(display(*object(faulty.record("flash").extra, "accuracy_rule").find("verdict")) == "holds");
}

TEST_CASE("a logit that is not finite ends the run with a report by layer head and position") {
  const TemporaryFolder folder;
  const std::string model = huge_model(folder.path() / "huge");
  const std::string text = (folder.path() / "text.txt").string(), out = (folder.path() / "out").string();
  write_text_file(text, kText);
  for (const std::string path : {"prefill", "decode"}) {
    fs::remove_all(out);  // the next path writes anew
    const ProgramResult result =
        run_program("attnppl", {"--model", model, "--device", "cpu", "--dataset", text, "--out", out,
                                "--max-length", "32", "--path", path});
    CAPTURE(path, result.out, result.err);
    CHECK(result.exit_code == 1);
    CHECK(
        contains(result.out, "the first value that is not finite is in layer 1, head 1, position 0: score"));
    const auto records = read_results(std::vector<fs::path>{out}).records;
    REQUIRE_FALSE(records.empty());
    bool named = false;
    for (const ResultRecord& record : records) {
      CHECK((record.outcome == Outcome::nonfinite || record.outcome == Outcome::interrupted));
      CHECK(record.metrics.find("perplexity")->is_null());  // of each mode: the first window ended the run
      if (record.outcome != Outcome::nonfinite) continue;
      named = true;
      const Fields& nonfinite = object(record.extra, "nonfinite");
      CHECK(number(nonfinite, "token") == 1);
      CHECK(number(nonfinite, "row") == 0);
      const Fields& found = object(object(nonfinite, "health"), "first_nonfinite");
      CHECK(number(found, "layer") == 1);
      CHECK(number(found, "head") == 1);
      CHECK(number(found, "position") == 0);
    }
    CHECK(named);
    CHECK_FALSE(contains(result.out, "nan"));
  }
}

TEST_CASE("health of the first windows stands beside the perplexity") {
  Run run;
  run.options.health = 2;
  REQUIRE(run.exit_code() == 0);
  for (const char* mode : {"baseline", "flash"}) {
    const Fields& health = object(run.record(mode).extra, "health");
    CHECK(number(health, "windows") == 2);
    CHECK(number(health, "longest_window") == 32);
    CHECK(health.find("first_nonfinite")->is_null());
    CHECK(health.find("overflows_f16")->array()->empty());
    REQUIRE(health.find("layers")->array()->size() == 1);
    const Fields& layer = *health.find("layers")->array()->front().fields();
    CHECK(number(layer, "largest_score") > 0);
    CHECK(number(layer, "f16_headroom") == Approx(65504 / number(layer, "largest_score")));
    CHECK(number(health, "f16_headroom") == number(layer, "f16_headroom"));
  }
}

TEST_CASE("wrong values of the comparisons' options exit with 2") {
  const TemporaryFolder folder;
  const std::string model = make_tiny_model(folder.path() / "tiny");
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--path", "other"}, {"--path", "decode,decode"}, {"--reference", "f16"}, {"--health", "0"}}) {
    std::vector<std::string> arguments{"--model", model, "--random-weights", "--out",
                                       (folder.path() / "out").string()};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const ProgramResult result = run_program("attnppl", arguments);
    CAPTURE(wrong.front(), wrong.back(), result.err);
    CHECK(result.exit_code == 2);
  }
}
