// The GPU as a Device: memory, copies of every path, order, time.
#include "lib/backend/device.h"

#include <cstdint>
#include <vector>

#include "lib/core/error.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>((i * 2654435761U + seed) >> 13);
  return out;
}

}  // namespace

TEST_CASE("a GPU says what it is") {
  ATTN_OPEN_GPU(platform);
  const DeviceInfo info = platform.device->info();
  CHECK(info.spec == "cuda:0");
  CHECK_FALSE(info.description.empty());
  CHECK(info.total_bytes > (std::size_t{1} << 30));
  CHECK(info.threads == 0);
  CHECK(info.libraries.find("cuBLAS") != std::string::npos);
  CHECK_FALSE(platform.device->host_memory());
  CHECK(open_platform("auto").device->info().spec == "cuda:0");
}

TEST_CASE("a GPU that is not there is refused by number") {
  ATTN_OPEN_GPU(platform);
  REQUIRE(platform.device != nullptr);
  try {
    open_platform("cuda:99");
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::device);
    CHECK(std::string(error.what()).find("99") != std::string::npos);
  }
}

TEST_CASE("memory of a GPU is aligned and counted while its owner lives") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  const std::size_t before = device.memory().live_bytes();  // the workspace of the products
  {
    const Buffer small = device.allocate(100, MemoryUse::activations);
    const Buffer large = device.allocate(std::size_t{5} << 20, MemoryUse::weights);
    CHECK(reinterpret_cast<std::uintptr_t>(small.data()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(large.data()) % 64 == 0);
    CHECK(device.memory().live_bytes() == before + 100 + (std::size_t{5} << 20));
    CHECK(device.allocate(0, MemoryUse::other).data() == nullptr);
  }
  CHECK(device.memory().live_bytes() == before);
}

TEST_CASE("more memory than the GPU has is refused by size and the GPU works on") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  const std::size_t total = device.info().total_bytes;
  for (int round = 0; round < 3; ++round) {
    try {
      const Buffer buffer = device.allocate(total * 2, MemoryUse::scores);
      FAIL("allocated " << buffer.bytes());
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::out_of_memory);
      CHECK(std::string(error.what()).find(std::to_string(total * 2)) != std::string::npos);
    }
    // Most of the memory, twice: what was freed is to be had again.
    const Buffer most = device.allocate(total / 4 * 3, MemoryUse::other);
    device.fill_zero(static_cast<char*>(most.data()) + most.bytes() - 4, 4);
    std::uint32_t last = 1;
    device.download(&last, static_cast<char*>(most.data()) + most.bytes() - 4, 4);
    CHECK(last == 0);
  }
}

TEST_CASE("copies and zeroes on a GPU reach every byte and no other") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{65536}, std::size_t{65537},
                                  (std::size_t{16} << 20), (std::size_t{50} << 20) + 3}) {
    const auto source = pattern(bytes + 2, 1);
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

TEST_CASE("downloads for later keep what was there when they were asked for") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  constexpr std::size_t kCount = 5000;  // more than can wait at once
  const Buffer place = device.allocate(8, MemoryUse::other);
  std::vector<std::uint64_t> values(kCount);
  std::vector<std::uint64_t> seen(kCount, 0);
  const auto source = [&] {
    std::vector<std::uint64_t> all(kCount);
    for (std::size_t i = 0; i < kCount; ++i) all[i] = i * i + 1;
    return all;
  }();
  const Buffer all = device.allocate(kCount * 8, MemoryUse::other);
  device.upload(all.data(), source.data(), kCount * 8);
  const auto watch = device.make_stopwatch();
  watch->start();
  for (std::size_t i = 0; i < kCount; ++i) {
    device.copy(place.data(), static_cast<std::uint64_t*>(all.data()) + i, 8);
    device.download_later(&seen[i], place.data(), 8);
    watch->mark();
  }
  const auto marks = watch->milliseconds();
  CHECK(seen == source);  // a passed mark is enough
  REQUIRE(marks.size() == kCount);
  CHECK(std::is_sorted(marks.begin(), marks.end()));
  CHECK(marks.front() >= 0);
}

TEST_CASE("a captured body does its work at each replay on a GPU") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  const Buffer position = device.allocate(4, MemoryUse::other);
  auto* past = static_cast<std::int32_t*>(position.data());
  device.fill_zero(past, 4);
  const auto graph = device.capture([&] { platform.ops->advance(past, 3); });
  for (int n = 0; n < 5; ++n) graph->replay();
  std::int32_t value = 0;
  device.download(&value, past, 4);
  CHECK(value == 15);
}
