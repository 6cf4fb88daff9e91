// attnbench on devices of the test's making: too little memory, and ceilings that figures cannot obey.
#include <algorithm>

#include "apps/attnbench/run.h"
#include "lib/backend_cpu/cpu_device.h"
#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"

using namespace attn;

namespace {

// A CPU with less memory, or one that refuses a single allocation.
class SmallCpu : public CpuDevice {
 public:
  std::size_t limit = SIZE_MAX;  // bytes
  int refused = -1;              // which allocation, counted from 0
  int asked = 0;

 protected:
  void* raw_allocate(std::size_t bytes) override {
    if (asked++ == refused || bytes > limit || memory().live_bytes() > limit - bytes) return nullptr;
    return CpuDevice::raw_allocate(bytes);
  }
};

struct Bench {
  Bench() {
    platform = open_platform("cpu");
    auto owned = std::make_unique<SmallCpu>();
    device = owned.get();
    platform.device = std::move(owned);
    options.model.model = (std::filesystem::path(ATTN_SOURCE_DIR) / "tests/goldens/neox-default").string();
    options.model.device = "cpu";
    options.prompt_tokens = {60};
    options.new_tokens = {3};
    options.reps = 2;
    ceilings.copy_gb_s = {1e9, 1e9, 1};
    ceilings.read_gb_s = Ceiling{1e9, 1e9, 1};
    ceilings.product_tflops = Ceiling{1e9, 1e9, 1};
    ceilings.cache_bytes = 1;
  }

  // The records of one run; `exit_code` is its.
  std::vector<ResultRecord> run() {
    const TemporaryFolder folder;
    options.out = folder.path().string();
    exit_code = run_bench(options, platform, ceilings);
    const std::filesystem::path path = folder.path();
    return read_results({&path, 1}).records;
  }

  Platform platform;
  SmallCpu* device = nullptr;
  BenchOptions options;
  Ceilings ceilings;
  int exit_code = -1;
};

double number(const Fields& fields, std::string_view key) {
  CAPTURE(std::string(key));
  const Value* value = fields.find(key);
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

}  // namespace

TEST_CASE("a mode without memory for its scores is a row and the sweep goes on") {
  Bench bench;
  bench.options.prompt_tokens = {300};
  const auto free = bench.run();
  REQUIRE(bench.exit_code == 0);
  REQUIRE(free.size() == 2);
  const double scores = number(*free[0].memory.find("peaks")->fields(), "scores");
  bench.device->limit = static_cast<std::size_t>(number(free[0].memory, "peak_bytes") - scores / 2);
  bench.options.prompt_tokens = {300, 4};
  const auto records = bench.run();
  CHECK(bench.exit_code == 5);
  REQUIRE(records.size() == 4);
  CHECK(records[0].outcome == Outcome::out_of_memory);
  CHECK(number(records[0].metrics, "bytes_asked") == scores);
  CHECK(text(records[0].metrics, "bytes_asked_for") == "scores");
  CHECK(contains(records[0].reason, std::to_string(static_cast<std::size_t>(scores))));
  CHECK(text(records[0].parameters, "mode") == "baseline");
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(records[i].outcome == Outcome::ok);
    CHECK(records[i].samples.find("token_ms")->array()->size() == 2);
  }
  CHECK(bench.device->memory().live_bytes() == 0);
}

TEST_CASE("weights that do not fit make every case a row") {
  Bench bench;
  bench.device->limit = 100;
  bench.options.batch_sizes = {1, 2};
  const auto records = bench.run();
  CHECK(bench.exit_code == 5);
  REQUIRE(records.size() == 4);
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::out_of_memory);
    CHECK(number(record.metrics, "bytes_asked") > 100);
    CHECK(text(record.metrics, "bytes_asked_for") == "weights");
    CHECK(text(record.parameters, "dtype") == "f32");
  }
  CHECK(bench.device->memory().live_bytes() == 0);
}

TEST_CASE("whichever allocation is refused the modes that can still be timed are and nothing stays taken") {
  Bench bench;
  bench.options.new_tokens = {2};
  bench.options.reps = 1;
  bench.options.warmup = 0;
  bench.run();
  REQUIRE(bench.exit_code == 0);
  const int all = bench.device->asked;
  bool in_turns = false;
  bool one_left = false;
  for (int refused = 0; refused < all; ++refused) {
    CAPTURE(refused, all);
    bench.device->asked = 0;
    bench.device->refused = refused;
    const auto records = bench.run();
    CHECK(bench.exit_code == 5);
    REQUIRE(records.size() == 2);
    int failed = 0;
    for (const ResultRecord& record : records) {
      if (record.outcome == Outcome::ok) {
        CHECK(record.samples.find("token_ms")->array()->size() == 1);
        continue;
      }
      ++failed;
      CHECK(record.outcome == Outcome::out_of_memory);
      CHECK(number(record.metrics, "bytes_asked") > 0);
      in_turns = in_turns || contains(record.reason, "in turns");
    }
    CHECK(failed >= 1);
    one_left = one_left || (failed == 1 && in_turns);
    CHECK(bench.device->memory().live_bytes() == 0);
  }
  CHECK(in_turns);
  CHECK(one_left);
}

TEST_CASE("figures below their limits hold their shares") {
  Bench bench;
  const auto records = bench.run();
  CHECK(bench.exit_code == 0);
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::ok);
    CHECK(number(record.metrics, "ttft_share_of_limit") ==
          Approx(number(record.metrics, "limit_ttft_ms") / number(record.metrics, "ttft_ms")));
    CHECK(number(record.metrics, "tpot_share_of_limit") < 1);
    CHECK(text(record.metrics, "limit_tpot_by") == "memory");
    CHECK(record.extra.find("work") != nullptr);
    CHECK(record.extra.find("sensors") != nullptr);
    CHECK(record.metrics.find("energy_per_token_j")->is_null());
  }
}

TEST_CASE("a figure faster than the device is an error and not a result") {
  Bench slow_memory;
  slow_memory.ceilings.read_gb_s = Ceiling{1e-6, 1e-6, 1};
  auto records = slow_memory.run();
  CHECK(slow_memory.exit_code == 1);
  REQUIRE(records.size() == 2);
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::error);
    CHECK(contains(record.reason, "tpot_ms"));
    CHECK(contains(record.reason, "ttft_ms"));
    CHECK(number(record.metrics, "tpot_share_of_limit") > 1);
  }
  Bench slow_products;
  slow_products.ceilings.product_tflops = Ceiling{1e-9, 1e-9, 1};
  records = slow_products.run();
  CHECK(slow_products.exit_code == 1);
  CHECK(contains(records[0].reason, "products"));
}

TEST_CASE("a model that fits in the cache is not held to the memory") {
  Bench bench;
  bench.ceilings.read_gb_s = Ceiling{1e-6, 1e-6, 1};
  bench.ceilings.cache_bytes = std::size_t{1} << 40;
  const auto records = bench.run();
  CHECK(bench.exit_code == 0);
  CHECK(records[0].metrics.find("limit_tpot_ms")->is_null());
  CHECK(contains(text(records[0].metrics, "limit_tpot_reason"), "last-level cache"));
}

TEST_CASE("attention alone is held to the device too") {
  Bench bench;
  OpOptions options;
  options.modes = {"flash"};
  options.q_heads = {4};
  options.q_len = {1};
  options.kv_len = {256};
  options.reps = 2;
  options.device = "cpu";
  const auto run = [&] {
    const TemporaryFolder folder;
    options.out = folder.path().string();
    bench.exit_code = run_op(options, bench.platform, bench.ceilings);
    const std::filesystem::path path = folder.path();
    return read_results({&path, 1}).records;
  };
  auto records = run();
  REQUIRE(records.size() == 1);
  CHECK(bench.exit_code == 0);
  CHECK(number(records[0].metrics, "time_share_of_limit") < 1);
  CHECK(number(records[0].metrics, "calls_per_sample") > 1);  // microseconds each
  bench.ceilings.read_gb_s = Ceiling{1e-6, 1e-6, 1};
  records = run();
  CHECK(bench.exit_code == 1);
  CHECK(records[0].outcome == Outcome::error);
  CHECK(contains(records[0].reason, "time_ms"));

  // A cache that copies can exceed, and one that they cannot.
  bench.ceilings.read_gb_s = Ceiling{1e9, 1e9, 1};
  bench.ceilings.cache_bytes = std::size_t{1} << 20;
  records = run();
  CHECK(number(records[0].metrics, "copies") >= 16.0 * (1 << 20) / (2 * 4 * 257 * 64 * 4));
  CHECK(number(records[0].metrics, "limit_time_ms") > 0);
  bench.ceilings.cache_bytes = std::size_t{1} << 40;
  records = run();
  CHECK(number(records[0].metrics, "copies") == 1);
  CHECK(records[0].metrics.find("limit_time_ms")->is_null());

  bench.device->limit = 1000;
  records = run();
  CHECK(bench.exit_code == 5);
  CHECK(records[0].outcome == Outcome::out_of_memory);
  CHECK(number(records[0].metrics, "bytes_asked") > 0);
}
