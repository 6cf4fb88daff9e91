// attnbench as a person runs it: records, refusals, exit codes, interruption.
#include <cstdlib>
#include <string>

#include <sys/wait.h>

#include "lib/results/reader.h"
#include "lib/results/record.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"

using namespace attn;

namespace {

const std::filesystem::path kSource = ATTN_SOURCE_DIR;
const std::string kNeox = (kSource / "tests/goldens/neox-default").string();
const std::string kGpt2 = (kSource / "tests/goldens/gpt2-default").string();

ProgramResult bench(std::vector<std::string> arguments) { return run_program("attnbench", arguments); }

// A small run of a golden model into `folder`.
ProgramResult small_run(const TemporaryFolder& folder, const std::string& model,
                        std::vector<std::string> more) {
  std::vector<std::string> arguments{"--model", model, "--device", "cpu",
                                     "--reps",  "2",   "--out",    folder.path().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return bench(arguments);
}

std::vector<ResultRecord> records_in(const std::filesystem::path& path) {
  return read_results({&path, 1}).records;
}

double number(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  CAPTURE(std::string(key));
  REQUIRE(value != nullptr);
  REQUIRE(value->number());
  return *value->number();
}

std::string text(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  return value == nullptr ? "" : display(*value);
}

bool contains(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

void check_refused(const ProgramResult& result, int code, const std::string& part) {
  CAPTURE(result.out, result.err, part);
  CHECK(result.exit_code == code);
  CHECK(contains(result.err, part));
}

}  // namespace

TEST_CASE("attnbench measures demo in both modes and the outputs agree") {
  const TemporaryFolder folder;
  const auto result = bench({"--new-tokens", "6", "--reps", "2", "--device", "cpu", "--out",
                             folder.path().string(), "--print-text"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "--- flash"));
  const auto records = records_in(folder.path() / "attnbench.jsonl");
  REQUIRE(records.size() == 2);
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::ok);
    CHECK(number(record.metrics, "ttft_ms") > 0);
    CHECK(number(record.metrics, "tpot_ms") > 0);
    CHECK(number(record.metrics, "throughput_tps") > 0);
    CHECK(number(record.metrics, "copy_gb_s") > 0);
    CHECK(text(record.parameters, "prompt") == "prompts/short_prompt.txt");
    CHECK(number(record.memory, "peak_bytes") == number(record.memory, "predicted_bytes"));
    CHECK(record.samples.find("token_ms")->array()->size() == 2);
    CHECK_FALSE(text(record.environment, "compiler").empty());
  }
  CHECK(text(records[0].parameters, "mode") == "baseline");
  CHECK(number(*records[0].memory.find("peaks")->fields(), "scores") > 0);
  CHECK(number(*records[1].memory.find("peaks")->fields(), "scores") == 0);
  CHECK(number(records[1].metrics, "equal_leading_tokens") == number(records[1].metrics, "compared_tokens"));
}

TEST_CASE("attnbench measures the product of its lists given by commas or spaces or repeats") {
  const TemporaryFolder folder;
  const auto result = small_run(folder, kNeox,
                                {"--prompt-tokens", "5,9", "--batch-sizes", "1", "3", "--new-tokens", "2",
                                 "--new-tokens", "4", "--mode", "flash"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 8);
  CHECK(text(records.back().parameters, "prompt_tokens") == "9");
  CHECK(text(records.back().parameters, "batch_size") == "3");
  CHECK(text(records.back().parameters, "new_tokens") == "4");
}

TEST_CASE("one new token has no time per output token and says why") {
  const TemporaryFolder folder;
  REQUIRE(small_run(folder, kNeox, {"--prompt-tokens", "5", "--new-tokens", "1"}).exit_code == 0);
  for (const ResultRecord& record : records_in(folder.path())) {
    CHECK(record.metrics.find("tpot_ms")->is_null());
    CHECK_FALSE(text(record.metrics, "tpot_reason").empty());
    CHECK(number(record.metrics, "ttft_ms") > 0);
  }
}

TEST_CASE("attnbench writes one document when asked for a json file") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "deep/er/run.json";
  REQUIRE(bench({"--model", kNeox, "--prompt-tokens", "4", "--new-tokens", "2", "--reps", "1", "--device",
                 "cpu", "--out", file.string()})
              .exit_code == 0);
  const std::string json = read_text(file);
  for (const char* key :
       {"\"results\"", "\"summary\"", "\"batch_size\"", "\"max_new_tokens\"", "\"prompt_seq_len\"",
        "\"ttft_ms\"", "\"tpot_ms\"", "\"throughput_tps\"", "\"peak_mem_mb\"", "\"FLASH_SDPA\""}) {
    CAPTURE(key);
    CHECK(contains(json, key));
  }
}

TEST_CASE("attnbench runs a command line of system B") {
  const TemporaryFolder folder;
  const auto prompt = folder.path() / "p.txt";
  write_text_file(prompt, "The quick brown fox jumps over the lazy dog and runs away from it.");
  const auto result = bench({"--mode",
                             "baseline",
                             "--max-new-tokens",
                             "3",
                             "--new-token-sizes",
                             "2",
                             "4",
                             "--prompt",
                             "no such file",
                             "--long-prompt",
                             "--long-prompt-path",
                             prompt.string(),
                             "--batch-sizes",
                             "1",
                             "2",
                             "--max-prompt-tokens",
                             "8",
                             "--warmup-iters",
                             "1",
                             "--pretty",
                             "--reps",
                             "1",
                             "--device",
                             "cpu",
                             "--out",
                             (folder.path() / "r.json").string()});
  CAPTURE(result.out, result.err);
  CHECK(result.exit_code == 0);
  CHECK(records_in(folder.path() / "r.json").size() == 4);
  check_refused(bench({"--mode", "flash", "--model-size", "7b", "--device", "cpu"}), 3, "pythia-6.9b");
}

TEST_CASE("random weights run a config without a checkpoint") {
  const TemporaryFolder folder;
  const TemporaryFolder model;
  std::filesystem::copy(kSource / "tests/goldens/llama-gqa/config.json", model.path() / "config.json");
  check_refused(small_run(folder, model.path().string(), {"--prompt-tokens", "6"}), 3, "--random-weights");
  const auto result =
      small_run(folder, model.path().string(),
                {"--random-weights", "--seed", "3", "--prompt-tokens", "6", "--new-tokens", "5"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(text(records_in(folder.path())[0].parameters, "model_source") == "random weights");
}

TEST_CASE("learned positions are not overrun and a rotary context only with a warning") {
  const TemporaryFolder folder;
  check_refused(small_run(folder, kGpt2, {"--prompt-tokens", "45", "--new-tokens", "4"}), 3,
                "48 learned positions");
  CHECK(small_run(folder, kGpt2, {"--prompt-tokens", "45", "--new-tokens", "3"}).exit_code == 0);

  const TemporaryFolder rotary;
  const std::vector<std::string> past{"--prompt-tokens", "70", "--new-tokens", "2"};
  const auto warned = small_run(rotary, kNeox, past);
  REQUIRE(warned.exit_code == 0);
  CHECK(contains(warned.err, "trained context"));
  CHECK(contains(text(records_in(rotary.path())[0].metrics, "warning"), "trained context"));
  auto strict = past;
  strict.push_back("--strict-context");
  check_refused(small_run(rotary, kNeox, strict), 3, "--strict-context");
}

TEST_CASE("attnbench refuses wrong usage with exit code 2") {
  check_refused(bench({"--no-such-flag"}), 2, "no-such-flag");
  check_refused(bench({"--mode", "fast"}), 2, "baseline, flash, reference");
  check_refused(bench({"--mode", "flash,flash"}), 2, "twice");
  check_refused(bench({"--new-tokens", "0"}), 2, "--new-tokens");
  check_refused(bench({"--prompt-tokens", "4", "--long-prompt"}), 2, "--prompt-tokens");
  check_refused(bench({"--top-k", "5"}), 2, "--temperature");
  check_refused(bench({"--device", "tpu"}), 2, "tpu");
  check_refused(bench({"--dtype", "f8", "--device", "cpu"}), 2, "f8");
  check_refused(bench({"--baseline-scores", "f16", "--device", "cpu"}), 2, "dtype, f32");
  check_refused(run_program("attnbench", {"op", "--baseline-scores", "f16", "--device", "cpu"}), 2,
                "dtype, f32");
}

TEST_CASE("attnbench says what to do about a model that is not there") {
  const auto unknown = bench({"--model", "no-such-model"});
  check_refused(unknown, 3, "tools/fetch_model");
  CHECK(contains(unknown.err, "--random-weights"));
  check_refused(bench({"--model", "gpt2-xl", "--prompt-tokens", "4", "--device", "cpu"}), 3,
                "tools/fetch_model gpt2-xl");
}

TEST_CASE("attnbench refuses bad prompts") {
  const TemporaryFolder folder;
  write_text_file(folder.path() / "empty.txt", "");
  write_text_file(folder.path() / "latin1.txt", "caf\xe9");
  check_refused(bench({"--prompt", (folder.path() / "empty.txt").string(), "--device", "cpu"}), 3, "empty");
  check_refused(bench({"--prompt", (folder.path() / "latin1.txt").string(), "--device", "cpu"}), 3, "UTF-8");
  check_refused(bench({"--prompt", (folder.path() / "none.txt").string(), "--device", "cpu"}), 3, "none.txt");
  check_refused(bench({"--model", kNeox, "--device", "cpu"}), 3, "--prompt-tokens");
}

TEST_CASE("attnbench finds out that it cannot write before it works") {
  const TemporaryFolder folder;
  write_text_file(folder.path() / "file", "x");
  check_refused(bench({"--device", "cpu", "--out", (folder.path() / "file/sub").string()}), 3, "file");
}

TEST_CASE("attnbench refuses what the CPU cannot do") {
  check_refused(bench({"--dtype", "bf16", "--device", "cpu"}), 4, "f32");
}

TEST_CASE("a dry run lists the cases and writes nothing") {
  const TemporaryFolder folder;
  const auto result = small_run(folder, kNeox, {"--prompt-tokens", "7", "--dry-run"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "predicted MiB"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the listings name what exists") {
  CHECK(contains(bench({"--list-models"}).out, "pythia-2.8b"));
  const auto kernels = bench({"--list-kernels", "--device", "cpu"});
  CHECK(contains(kernels.out, "flash"));
  CHECK(contains(bench({"--inspect", "--model", kNeox}).out, "used"));
  CHECK(contains(bench({"--help"}).out, "ttft_ms"));
}

TEST_CASE("an interrupted run leaves a valid file and says so") {
  const TemporaryFolder folder;
  const std::string log = (folder.path() / "log").string();
  // --foreground: else timeout signals its whole group too, and the second SIGINT ends the program at once.
  const std::string command = "timeout --foreground -s INT --preserve-status 4 '" ATTN_BIN_DIR
                              "/attnbench' --device cpu --reps 1000000 " +
                              std::string("--new-tokens 4 --out '") + folder.path().string() + "' >'" + log +
                              "' 2>&1";
  const int status = std::system(command.c_str());
  CAPTURE(read_text(log));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(contains(read_text(log), "is valid"));
  const auto records = records_in(folder.path() / "attnbench.jsonl");
  REQUIRE(records.size() == 2);
  for (const ResultRecord& record : records) CHECK(record.outcome == Outcome::interrupted);
}

TEST_CASE("attnbench op measures attention alone and compares it before") {
  const TemporaryFolder folder;
  const auto result =
      bench({"op", "--batch", "2", "--q-heads", "4", "--kv-heads", "2", "--q-len", "1,65", "--kv-len", "70",
             "--head-dim", "20,64", "--reps", "2", "--device", "cpu", "--out", folder.path().string()});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const auto records = records_in(folder.path() / "attnbench_op.jsonl");
  REQUIRE(records.size() == 8);
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::ok);
    CHECK(number(record.metrics, "relative_error") < 1e-5);
    CHECK(number(record.metrics, "rows_compared") > 0);
    CHECK(number(record.metrics, "time_ms") > 0);
    CHECK(number(record.metrics, "tflops") <= number(record.metrics, "tflops_full_matrix"));
  }
  check_refused(bench({"op", "--q-heads", "6", "--kv-heads", "4"}), 2, "kv_heads");
  check_refused(bench({"op", "--q-len", "0"}), 2, "q_len");
}
