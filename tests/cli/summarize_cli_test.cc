// summarize, the real program: tables, exit codes, and what it says on stderr.
#include <sstream>

#include "lib/results/writer.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"

using namespace attn;

namespace {

ResultRecord bench(const std::string& mode, int new_tokens, double scale) {
  ResultRecord r;
  r.app = "attnbench";
  r.parameters = {{"model", "demo"},
                  {"device", "cpu"},
                  {"dtype", "f32"},
                  {"batch_size", 1},
                  {"prompt_tokens", 512},
                  {"new_tokens", new_tokens},
                  {"sampling", Fields{{"temperature", 0}}},
                  {"mode", mode}};
  r.metrics = {{"ttft_ms", 100 * scale},
               {"tpot_ms", 10 * scale},
               {"throughput_tps", 50 / scale},
               {"peak_mem_mb", 64 * scale}};
  r.environment = {{"device", "cpu"}, {"git_commit", "aaaa"}};
  return r;
}

ResultRecord perplexity(const std::string& mode, double value, const std::string& sha) {
  ResultRecord r;
  r.app = "attnppl";
  r.parameters = {
      {"model", "demo"}, {"dataset", "sample"}, {"context", 256}, {"token_sha256", sha}, {"mode", mode}};
  r.metrics = {{"perplexity", value}, {"tokens_scored", 999}};
  return r;
}

ResultRecord op(const std::string& mode, double time_ms) {
  ResultRecord r;
  r.app = "attnbench op";
  r.parameters = {{"batch", 1},     {"q_heads", 8},   {"kv_heads", 8},  {"q_len", 128}, {"kv_len", 128},
                  {"head_dim", 64}, {"dtype", "f32"}, {"causal", true}, {"mode", mode}};
  r.metrics = {{"time_ms", time_ms}, {"tflops", 1 / time_ms}, {"gb_s", 2 / time_ms}};
  return r;
}

void write_lines(const std::filesystem::path& path, const std::vector<ResultRecord>& records) {
  JsonlWriter writer(path);
  for (const auto& record : records) writer.append(record);
}

std::vector<std::vector<std::string>> cells_of(const std::string& tsv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(tsv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

// The cell of `row` under the header `name`.
std::string cell(const std::vector<std::vector<std::string>>& rows, std::size_t row,
                 const std::string& name) {
  for (std::size_t i = 0; i < rows.at(0).size(); ++i) {
    if (rows[0][i] == name) return i < rows.at(row).size() ? rows[row][i] : "";
  }
  return "no column " + name;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("summarize prints both figures and speed-ups and geometric means") {
  const TemporaryFolder folder;
  write_lines(folder.path() / "bench.jsonl", {bench("baseline", 128, 2), bench("flash", 128, 1),
                                              bench("baseline", 512, 8), bench("flash", 512, 1)});
  const auto result = run_program("summarize", {folder.path().string()});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const auto rows = cells_of(result.out);
  REQUIRE(rows.size() == 4);
  CHECK(cell(rows, 1, "new_tokens") == "128");
  CHECK(cell(rows, 1, "ttft_ms_baseline") == "200");
  CHECK(cell(rows, 1, "ttft_ms_flash") == "100");
  CHECK(cell(rows, 1, "ttft_speedup") == "2");
  CHECK(cell(rows, 2, "tpot_speedup") == "8");
  CHECK(cell(rows, 1, "throughput_speedup") == "2");
  CHECK(cell(rows, 1, "peak_mem_saved_mb") == "64");
  CHECK(cell(rows, 1, "peak_mem_saved_percent") == "50");
  CHECK(cell(rows, 1, "runs_flash") == "1");
  CHECK(rows[3][0] == "geometric mean");
  CHECK(cell(rows, 3, "ttft_speedup") == "4");
  CHECK(cell(rows, 3, "throughput_speedup") == "4");
  CHECK(cell(rows, 3, "peak_mem_saved_percent") == "75");
}

TEST_CASE("summarize shows perplexity and attention alone in tables of their own") {
  const TemporaryFolder folder;
  write_lines(folder.path() / "all.jsonl",
              {bench("baseline", 128, 2), bench("flash", 128, 1), op("baseline", 3), op("flash", 2),
               perplexity("baseline", 20, "ab"), perplexity("flash", 20.2, "ab")});
  const auto all = run_program("summarize", {folder.path().string()});
  CHECK(all.exit_code == 0);
  CHECK(contains(all.out, "# Latency, throughput and memory\n"));
  CHECK(contains(all.out, "\n\n# Attention alone\n"));
  CHECK(contains(all.out, "\n\n# Perplexity\n"));
  const auto ppl = cells_of(run_program("summarize", {folder.path().string(), "--table", "perplexity"}).out);
  CHECK(cell(ppl, 1, "perplexity_flash") == "20.2");
  CHECK(cell(ppl, 1, "log_perplexity_diff") == "0.00995");
  CHECK(cell(ppl, 1, "tokens_scored") == "999");
  CHECK(ppl.size() == 2);
  const auto alone = cells_of(
      run_program("summarize", {folder.path().string(), "--table", "op", "--metric", "time_ms"}).out);
  CHECK(cell(alone, 1, "time_speedup") == "1.5");
  CHECK(cell(alone, 1, "tflops_speedup") == "no column tflops_speedup");
}

TEST_CASE("summarize shows a hash only where rows would look alike without it") {
  const auto with_prompt = [](ResultRecord record, const char* sha) {
    record.parameters.entries.push_back({"prompt_sha256", sha});
    return record;
  };
  const TemporaryFolder folder;
  write_lines(folder.path() / "bench.jsonl",
              {with_prompt(bench("baseline", 128, 2), "ab"), with_prompt(bench("flash", 128, 1), "ab"),
               with_prompt(bench("baseline", 512, 2), "cd"), with_prompt(bench("flash", 512, 1), "cd")});
  const auto clear = cells_of(run_program("summarize", {folder.path().string()}).out);
  REQUIRE(clear.size() == 4);
  CHECK(cell(clear, 1, "prompt_sha256") == "no column prompt_sha256");
  write_lines(folder.path() / "more.jsonl",
              {with_prompt(bench("baseline", 512, 2), "ef"), with_prompt(bench("flash", 512, 1), "ef")});
  const auto alike = cells_of(run_program("summarize", {folder.path().string()}).out);
  REQUIRE(alike.size() == 5);
  CHECK(cell(alike, 2, "prompt_sha256") == "cd");
  CHECK(cell(alike, 3, "prompt_sha256") == "ef");
}

TEST_CASE("summarize takes the median of repeated runs and shows how many there were") {
  const TemporaryFolder folder;
  write_lines(folder.path() / "bench.jsonl", {bench("baseline", 128, 2), bench("baseline", 128, 4),
                                              bench("baseline", 128, 30), bench("flash", 128, 1)});
  const auto rows = cells_of(run_program("summarize", {folder.path().string()}).out);
  CHECK(cell(rows, 1, "ttft_ms_baseline") == "400");
  CHECK(cell(rows, 1, "runs_baseline") == "3");
}

TEST_CASE("summarize lists what it cannot pair and exits with 3 if nothing is comparable") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "bench.jsonl";
  write_lines(path, {bench("baseline", 128, 2), bench("flash", 512, 1), perplexity("baseline", 20, "ab"),
                     perplexity("flash", 20, "cd")});
  const auto result = run_program("summarize", {path.string()});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK(contains(result.err, "new_tokens (128, 512)"));
  CHECK(contains(result.err, "token_sha256 (ab, cd)"));
  CHECK(contains(result.err, path.string() + ":1"));
  CHECK(contains(result.err, "nothing comparable"));
}

TEST_CASE("a case that failed in one mode has a row with its outcome and no speed-up") {
  const TemporaryFolder folder;
  ResultRecord failed = bench("baseline", 512, 1);
  failed.outcome = Outcome::out_of_memory;
  failed.metrics = {};
  write_lines(folder.path() / "bench.jsonl", {failed, bench("flash", 512, 1)});
  const auto result = run_program("summarize", {folder.path().string()});
  CHECK(result.exit_code == 3);
  const auto rows = cells_of(result.out);
  CHECK(cell(rows, 1, "outcome_baseline") == "out_of_memory");
  CHECK(cell(rows, 1, "outcome_flash") == "ok");
  CHECK(cell(rows, 1, "ttft_ms_flash") == "100");
}

TEST_CASE("summarize writes what it prints in the format of the file's ending") {
  const TemporaryFolder folder;
  write_lines(folder.path() / "bench.jsonl", {bench("baseline", 128, 2), bench("flash", 128, 1)});
  const auto out = folder.path() / "tables/summary.md";
  const auto markdown = run_program("summarize", {folder.path().string(), "--out", out.string()});
  CHECK(markdown.exit_code == 0);
  CHECK(contains(markdown.out, "| model | device |"));
  CHECK(read_text(out) == markdown.out);
  const auto csv = run_program("summarize", {folder.path().string(), "--format", "csv"});
  CHECK(contains(csv.out, "model,device,dtype"));
  CHECK(contains(csv.out, "\r\n"));
}

TEST_CASE("records of another mode and program are noted and the rest is compared") {
  const TemporaryFolder folder;
  ResultRecord logits = bench("flash", 128, 1);
  logits.app = "attnlogits";
  write_lines(folder.path() / "bench.jsonl",
              {bench("baseline", 128, 2), bench("flash", 128, 1), perplexity("reference", 20, "ab"), logits});
  const auto result = run_program("summarize", {folder.path().string()});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.err, "mode 'reference'"));
  CHECK(contains(result.err, "attnlogits"));
  const auto other = run_program("summarize", {"--modes", "flash,baseline", folder.path().string()});
  CHECK(cell(cells_of(other.out), 1, "ttft_speedup") == "0.5");
}

TEST_CASE("a torn last line does not stop summarize") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "bench.jsonl";
  write_lines(path, {bench("baseline", 128, 2), bench("flash", 128, 1)});
  write_text_file(path, read_text(path) + R"({"schema":"attn)");
  const auto result = run_program("summarize", {path.string()});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.err, "torn"));
}

TEST_CASE("summarize compares the files of system B with each other") {
  const TemporaryFolder folder;
  for (const std::string mode : {"baseline", "flash"}) {
    const std::string ttft = mode == "flash" ? "20" : "30";
    write_text_file(folder.path() / (mode + "_metrics.json"),
                    R"({"results":[{"batch_size":1,"max_new_tokens":128,"prompt_seq_len":25,"ttft_ms":)" +
                        ttft +
                        R"(,"tpot_ms":null,"throughput_tps":null,"peak_mem_mb":null,"config":{"mode":")" +
                        mode + R"(","device":"cuda","model_name":"pythia-2.8b"}}],"summary":{}})");
  }
  const auto result = run_program("summarize", {folder.path().string()});
  CHECK(result.exit_code == 0);
  CHECK(cell(cells_of(result.out), 1, "ttft_speedup") == "1.5");
}

TEST_CASE("a wrong command line of summarize exits with 2 and one line that says why") {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"x", "--format", "html"},
                                                    {"x", "--metric", "charm"},
                                                    {"x", "--table", "charm"},
                                                    {"x", "--no-such-option"},
                                                    {"x", "--modes", "flash,flash"},
                                                    {"x", "--modes", "flash"}}) {
    const auto result = run_program("summarize", arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.rfind("summarize: ", 0) == 0);
    CHECK(result.err.find('\n') == result.err.size() - 1);
  }
}

TEST_CASE("summarize without readable input exits with 3") {
  const auto result = run_program("summarize", {"/no/such/file.jsonl"});
  CHECK(result.exit_code == 3);
  CHECK(contains(result.err, "/no/such/file.jsonl"));
}

TEST_CASE("summarize explains itself on stdout") {
  const auto result = run_program("summarize", {"--help"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "--metric"));
  CHECK(result.err.empty());
}
