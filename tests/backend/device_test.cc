// The ledger, the CPU device, and the factory of platforms.
#include "lib/backend/device.h"

#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/core/build_info.h"
#include "lib/core/error.h"
#include "tests/catch.h"

using namespace attn;

namespace {

std::size_t of(const BytesByUse& bytes, MemoryUse use) { return bytes[static_cast<std::size_t>(use)]; }

ErrorKind kind_of_opening(std::string_view spec) {
  try {
    open_platform(spec);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::internal;
}

}  // namespace

TEST_CASE("the ledger keeps each purpose and the moment of the peak") {
  MemoryLedger ledger;
  ledger.add(100, MemoryUse::weights);
  ledger.add(50, MemoryUse::scores);
  ledger.remove(50, MemoryUse::scores);
  ledger.add(30, MemoryUse::logits);
  CHECK(ledger.live_bytes() == 130);
  CHECK(ledger.peak_bytes() == 150);
  CHECK(of(ledger.peaks(), MemoryUse::logits) == 30);
  CHECK(of(ledger.at_peak(), MemoryUse::logits) == 0);
  CHECK(of(ledger.at_peak(), MemoryUse::scores) == 50);
  const BytesByUse at_peak = ledger.at_peak();
  CHECK(std::accumulate(at_peak.begin(), at_peak.end(), std::size_t{0}) == ledger.peak_bytes());
  ledger.reset_peaks();
  CHECK(ledger.peak_bytes() == 130);
  CHECK(of(ledger.peaks(), MemoryUse::scores) == 0);
  CHECK(of(ledger.peaks(), MemoryUse::weights) == 100);
}

TEST_CASE("the ledger is right when threads share it") {
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ledger.add(8, MemoryUse::other);
        ledger.remove(8, MemoryUse::other);
      }
      ledger.add(1, MemoryUse::other);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(ledger.live_bytes() == 4);
  CHECK(ledger.peak_bytes() <= 4 * 9);
}

TEST_CASE("the names of memory purposes are those of the records") {
  CHECK(kMemoryUseNames.name(MemoryUse::kv_cache) == "kv_cache");
  CHECK(kMemoryUseNames.entries.size() == kMemoryUses);
}

TEST_CASE("memory of the CPU device is aligned and counted while its owner lives") {
  const Platform platform = open_platform("cpu");
  Device& device = *platform.device;
  {
    const Buffer small = device.allocate(100, MemoryUse::activations);
    const Buffer large = device.allocate(std::size_t{5} << 20, MemoryUse::weights);
    CHECK(reinterpret_cast<std::uintptr_t>(small.data()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(large.data()) % 64 == 0);
    CHECK(device.memory().live_bytes() == 100 + (std::size_t{5} << 20));
    CHECK(device.allocate(0, MemoryUse::other).data() == nullptr);
  }
  CHECK(device.memory().live_bytes() == 0);
  CHECK(device.memory().peak_bytes() == 100 + (std::size_t{5} << 20));
  const Tensor tensor = device.allocate_tensor(DType::f32, {3, 5}, MemoryUse::logits);
  CHECK(tensor.view.bytes() == 60);
  CHECK(of(device.memory().peaks(), MemoryUse::logits) == 60);
}

TEST_CASE("more memory than the machine has is refused in time and by size") {
  const Platform platform = open_platform("cpu");
  const std::size_t impossible = platform.device->info().total_bytes * 4;
  try {
    const Buffer buffer = platform.device->allocate(impossible, MemoryUse::scores);
    FAIL("allocated " << buffer.bytes());
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::out_of_memory);
    CHECK(std::string(error.what()).find(std::to_string(impossible)) != std::string::npos);
    CHECK(std::string(error.what()).find("scores") != std::string::npos);
  }
  CHECK_THROWS_AS(platform.device->allocate(SIZE_MAX, MemoryUse::other), Error);
  CHECK(platform.device->memory().live_bytes() == 0);
}

TEST_CASE("copies and zeroes reach every byte and no other") {
  const Platform platform = open_platform("cpu");
  Device& device = *platform.device;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, (std::size_t{9} << 20) + 3}) {
    std::vector<unsigned char> source(bytes + 2);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 7 + 1);
    const Buffer a = device.allocate(bytes + 2, MemoryUse::other);
    const Buffer b = device.allocate(bytes + 2, MemoryUse::other);
    std::vector<unsigned char> back(bytes + 2, 0);
    device.upload(a.data(), source.data(), bytes + 2);
    device.fill_zero(b.data(), bytes + 2);
    device.copy(static_cast<char*>(b.data()) + 1, static_cast<char*>(a.data()) + 1, bytes);
    device.download(back.data(), b.data(), bytes + 2);
    CHECK(back.front() == 0);
    CHECK(back.back() == 0);
    CHECK(std::equal(source.begin() + 1, source.end() - 1, back.begin() + 1));
    device.download_later(back.data(), a.data(), bytes + 2);
    device.synchronize();
    CHECK(back == source);
  }
}

TEST_CASE("a stopwatch forgets at its start and its marks do not fall") {
  const Platform platform = open_platform("cpu");
  const auto watch = platform.device->make_stopwatch();
  watch->start();
  watch->mark();
  watch->start();
  watch->mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  watch->mark();
  const std::vector<double> marks = watch->milliseconds();
  REQUIRE(marks.size() == 2);
  CHECK(marks[0] >= 0);
  CHECK(marks[1] >= marks[0] + 3);
}

TEST_CASE("a captured graph does its work at each replay") {
  const Platform platform = open_platform("cpu");
  int done = 0;
  const auto graph = platform.device->capture([&] { ++done; });
  const int before = done;
  graph->replay();
  graph->replay();
  CHECK(done == before + 2);
}

TEST_CASE("the CPU says what it is and how many threads it uses") {
  const Platform one = open_platform("cpu", {1});
  CHECK(one.device->info().threads == 1);
  const Platform all = open_platform("cpu");
  const DeviceInfo info = all.device->info();
  CHECK(info.spec == "cpu");
  CHECK_FALSE(info.description.empty());
  CHECK(info.total_bytes > 0);
  CHECK(info.threads >= 1);
  CHECK(info.libraries.find("OpenBLAS") != std::string::npos);
#if defined(__x86_64__)
  // kernels/cpu/threads.h: not the SSE3 kernels on a processor that OpenBLAS is too old to know.
  if (__builtin_cpu_supports("avx2")) CHECK(info.libraries.find("Prescott") == std::string::npos);
#endif
  CHECK_THROWS_AS(open_platform("cpu", {-1}), Error);
}

TEST_CASE("specs of devices are opened or refused by name") {
  CHECK(kind_of_opening("gpu") == ErrorKind::usage);
  CHECK(kind_of_opening("cuda:") == ErrorKind::usage);
  CHECK(kind_of_opening("cuda:x") == ErrorKind::usage);
  CHECK(kind_of_opening("cuda:-1") == ErrorKind::usage);
  CHECK(kind_of_opening("") == ErrorKind::usage);
  if (build_info().with_cuda) return;
  CHECK(open_platform("auto").device->info().spec == "cpu");
  for (const char* spec : {"cuda", "cuda:0", "cuda:3"})
    CHECK(kind_of_opening(spec) == ErrorKind::unsupported);
}

TEST_CASE("modes are found by name and a wrong one is told the right ones") {
  const Platform platform = open_platform("cpu");
  for (const char* mode : {"reference", "baseline", "flash"}) CHECK(platform.backend(mode).name() == mode);
  try {
    platform.backend("fast");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(std::string(error.what()).find("baseline") != std::string::npos);
  }
}

TEST_CASE("every kernel of every backend has a name of its own and says what it does") {
  const Platform platform = open_platform("cpu");
  std::vector<std::string> names;
  for (const auto& backend : platform.attention) {
    for (const KernelRow& row : backend->kernels()) {
      CHECK(std::find(names.begin(), names.end(), row.name) == names.end());
      CHECK_FALSE(row.what.empty());
      CHECK_FALSE(row.dtypes.empty());
      names.push_back(row.name);
    }
  }
  CHECK(names.size() >= 3);
}
