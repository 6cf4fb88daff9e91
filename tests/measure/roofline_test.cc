// Limits from ceilings, and ceilings of the CPU.
#include "lib/measure/roofline.h"

#include "lib/backend/platform.h"
#include "lib/core/error.h"
#include "tests/catch.h"
#include "tests/test_device.h"

using namespace attn;

namespace {

// 1000 GB/s, 100 TFLOP/s, 1 MB of cache; every repetition alike.
Ceilings round_ceilings() {
  Ceilings ceilings;
  ceilings.copy_gb_s = {900, 900, 5};
  ceilings.read_gb_s = Ceiling{1000, 1000, 5};
  ceilings.product_tflops = Ceiling{100, 100, 5};
  ceilings.cache_bytes = 1000000;
  return ceilings;
}

}  // namespace

TEST_CASE("the larger of products and memory is the limit") {
  const Limit products = limit_of({1e12, 1e9}, round_ceilings());
  CHECK(*products.ms() == Approx(10));
  CHECK(std::string(products.by()) == "products");
  const Limit memory = limit_of({1e10, 5e9}, round_ceilings());
  CHECK(*memory.ms() == Approx(5));
  CHECK(*memory.product_ms == Approx(0.1));
  CHECK(std::string(memory.by()) == "memory");
}

TEST_CASE("a figure faster than its limit is told by name and one within the tolerance is not") {
  const Limit limit = limit_of({1e10, 5e9}, round_ceilings());
  CHECK_FALSE(too_fast(limit, 5.1, "tpot_ms"));
  CHECK_FALSE(too_fast(limit, 4.95, "tpot_ms"));
  const auto words = too_fast(limit, 4.8, "tpot_ms");
  REQUIRE(words);
  CHECK(words->find("tpot_ms") != std::string::npos);
  CHECK(words->find("bytes") != std::string::npos);
  CHECK(too_fast(limit_of({1e12, 1e9}, round_ceilings()), 9.7, "ttft_ms"));
}

TEST_CASE("the spread of a ceiling and what the cache can keep widen the tolerance") {
  Ceilings ceilings = round_ceilings();
  ceilings.read_gb_s = Ceiling{1000, 900, 5};
  ceilings.product_tflops = Ceiling{100, 97, 5};
  CHECK(limit_of({1e10, 5e9}, ceilings).memory_tolerance == Approx(0.02 + 0.1 + 1e6 / 5e9));
  CHECK(limit_of({1e10, 5e9}, ceilings).product_tolerance == Approx(0.05));
  CHECK(limit_of({1e10, 2e6}, round_ceilings()).memory_tolerance == Approx(0.52));
  // Copies used in turn: the cache keeps less of them.
  CHECK(limit_of({1e10, 2e6, 4e7}, round_ceilings()).memory_tolerance == Approx(0.045));
}

TEST_CASE("work that fits in the cache has no limit by the memory and says why") {
  const Limit step = limit_of({1e3, 9e5}, round_ceilings());
  CHECK_FALSE(step.ms());
  CHECK(step.memory_reason.find("last-level cache") != std::string::npos);
  CHECK_FALSE(too_fast(step, 1e-4, "tpot_ms"));
  // Its products may still take longer than its bytes would.
  CHECK(*limit_of({1e12, 9e5}, round_ceilings()).ms() == Approx(10));
  // In copies that do not fit it is work on memory again.
  CHECK(limit_of({1e3, 9e5, 9e6}, round_ceilings()).ms());
  Ceilings unknown = round_ceilings();
  unknown.cache_bytes = 0;
  CHECK_FALSE(limit_of({1e3, 5e9}, unknown).ms());
}

TEST_CASE("a ceiling that was not measured leaves no limit but a reason") {
  Ceilings ceilings = round_ceilings();
  ceilings.read_gb_s.reset();
  ceilings.read_reason = "no memory";
  CHECK_FALSE(limit_of({1e3, 5e9}, ceilings).ms());
  CHECK(limit_of({1e3, 5e9}, ceilings).memory_reason == "no memory");
  ceilings.read_gb_s = Ceiling{1000, 1000, 5};
  ceilings.product_tflops.reset();
  CHECK(*limit_of({1e13, 5e9}, ceilings).ms() == Approx(5));
}

TEST_CASE("of two measurements the faster is kept for each ceiling") {
  Ceilings a = round_ceilings();
  Ceilings b = round_ceilings();
  a.read_gb_s->best = 1200;
  b.product_tflops->best = 120;
  b.copy_gb_s.best = 950;
  const Ceilings both = fastest(a, b);
  CHECK(both.read_gb_s->best == 1200);
  CHECK(both.product_tflops->best == 120);
  CHECK(both.copy_gb_s.best == 950);
  a.read_gb_s.reset();
  CHECK(fastest(a, b).read_gb_s->best == 1000);
}

TEST_CASE("reading and copying have rates on a device and nothing stays allocated") {
  const Platform platform = open_platform(test_device());
  Device& device = *platform.device;
  const std::size_t before = device.memory().live_bytes();
  const Ceiling copy = copy_ceiling(device, std::size_t{8} << 20);
  const ReadCeiling read = read_ceiling(device, std::size_t{32} << 20, std::size_t{1} << 20);
  CHECK(copy.best > 0.1);
  CHECK(copy.best >= copy.median);
  CHECK(copy.reps >= 5);
  CHECK(read.gb_s.best > 0.1);
  CHECK(read.bytes == std::size_t{32} << 20);
  CHECK(device.memory().live_bytes() == before);
}

TEST_CASE("a buffer to read from shrinks to the memory that is there and no further than the least") {
  const Platform platform = open_platform(test_device());
  Device& device = *platform.device;
  const std::size_t far_too_much = device.info().total_bytes * 2;
  const std::size_t least = std::size_t{4} << 20;
  if (device.host_memory()) {  // on a GPU half of all memory would be filled
    CHECK_THROWS_AS(read_ceiling(device, far_too_much, far_too_much), Error);
    return;
  }
  const ReadCeiling read = read_ceiling(device, far_too_much, least);
  CHECK(read.bytes >= least);
  CHECK(read.bytes < far_too_much);
}

TEST_CASE("a block is repeated to the last byte") {
  const Platform platform = open_platform(test_device());
  Device& device = *platform.device;
  const std::vector<char> block{1, 2, 3, 4, 5, 6, 7};
  for (const std::size_t bytes : {std::size_t{3}, std::size_t{7}, std::size_t{20}, std::size_t{57}}) {
    const Buffer buffer = device.allocate(bytes, MemoryUse::other);
    fill_with_repeats(device, buffer.data(), bytes, block.data(), block.size());
    std::vector<char> back(bytes);
    device.download(back.data(), buffer.data(), bytes);
    for (std::size_t i = 0; i < bytes; ++i) CHECK(back[i] == block[i % block.size()]);
  }
}
