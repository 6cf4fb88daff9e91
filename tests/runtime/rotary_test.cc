// Rotary positions in the operation that turns and appends: which dimensions turn, by which angle, and where
// they are written. Class 19 of kernels/README.md; class 18: exactly the new rows of the cache change.
#include "lib/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/catch.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

constexpr int kBatch = 2, kQueryHeads = 4, kKeyHeads = 2, kHeadDim = 80, kRotaryDims = 20, kCapacity = 300;
constexpr int kHeads = kQueryHeads + 2 * kKeyHeads;

using Numbers = std::vector<float>;

std::vector<DType> dtypes_of(const Platform& platform) {
  if (platform.device->host_memory()) return {DType::f32};
  return {DType::f32, DType::f16, DType::bf16};
}

double roundoff(DType dtype) {
  return dtype == DType::f32 ? 0x1p-22 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// qkv of some tokens, and caches laid head-major with every byte 0xff, a NaN in each type.
struct Room {
  Room(Platform& p, DType type, const RopeConfig& rope, int token_count)
      : platform(p), dtype(type), tokens(token_count) {
    Device& device = *p.device;
    rotary = make_rotary_table(device, rope, kCapacity);
    qkv = device.allocate_tensor(type, {kBatch, tokens, kHeads, kHeadDim}, MemoryUse::other);
    past = device.allocate(sizeof(std::int32_t), MemoryUse::other);
    for (Tensor* cache : {&k, &v}) {
      *cache = device.allocate_tensor(type, {kBatch, kKeyHeads, kCapacity, kHeadDim}, MemoryUse::other);
      const std::vector<unsigned char> poison(cache->view.bytes(), 0xff);
      device.upload(cache->view.data, poison.data(), poison.size());
    }
  }

  void put(const Numbers& values) {
    std::vector<char> bits(qkv.view.bytes());
    convert_elements(values.data(), DType::f32, bits.data(), dtype, values.size());
    platform.device->upload(qkv.view.data, bits.data(), bits.size());
  }
  void turn(std::int32_t position) {
    platform.device->upload(past.data(), &position, sizeof position);
    platform.ops->rope_and_append(qkv.view, rotary.table, static_cast<const std::int32_t*>(past.data()),
                                  seen(k.view), seen(v.view));
  }
  Numbers get(const TensorView& view) const {
    std::vector<char> bits(view.bytes());
    platform.device->download(bits.data(), view.data, bits.size());
    Numbers values(static_cast<std::size_t>(view.shape.elements()));
    convert_elements(bits.data(), dtype, values.data(), DType::f32, values.size());
    return values;
  }
  static TensorView seen(const TensorView& memory) {
    TensorView view(memory.data, memory.dtype, {kBatch, kCapacity, kKeyHeads, kHeadDim});
    view.strides = {std::int64_t{kKeyHeads} * kCapacity * kHeadDim, kHeadDim,
                    std::int64_t{kCapacity} * kHeadDim, 1};
    return view;
  }

  Platform& platform;
  DType dtype;
  int tokens;
  RotaryMemory rotary;
  Tensor qkv, k, v;
  Buffer past;
};

RopeConfig partial_rope() {
  RopeConfig rope;
  rope.theta = 10000;
  rope.rotary_dims = kRotaryDims;
  return rope;
}

std::size_t qkv_at(int tokens, int b, int t, int h) {
  return static_cast<std::size_t>(((b * tokens + t) * kHeads + h) * kHeadDim);
}
std::size_t cache_at(int b, int h, int position) {
  return static_cast<std::size_t>(((b * kKeyHeads + h) * kCapacity + position) * kHeadDim);
}

Numbers random_numbers(DType dtype, int tokens) {
  Numbers values(static_cast<std::size_t>(kBatch) * tokens * kHeads * kHeadDim);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(23, 0, i);
  std::vector<char> bits(values.size() * size_of(dtype));
  convert_elements(values.data(), DType::f32, bits.data(), dtype, values.size());
  convert_elements(bits.data(), dtype, values.data(), DType::f32, values.size());
  return values;
}

}  // namespace

TEST_CASE("a quarter of the dimensions turn in pairs half of them apart and the rest keep their bits") {
  Platform platform = open_platform(test_device());
  constexpr int kTokens = 7, kPast = 11;
  const std::vector<double> frequencies = rotary_frequencies(partial_rope());
  for (const DType dtype : dtypes_of(platform)) {
    CAPTURE(static_cast<int>(dtype));
    Room room(platform, dtype, partial_rope(), kTokens);
    const Numbers before = random_numbers(dtype, kTokens);
    room.put(before);
    room.turn(kPast);
    const Numbers queries = room.get(room.qkv.view);
    const Numbers keys = room.get(room.k.view);
    const Numbers values = room.get(room.v.view);
    bool interleaved_differs = false;
    for (int b = 0; b < kBatch; ++b) {
      for (int t = 0; t < kTokens; ++t) {
        for (int h = 0; h < kQueryHeads + kKeyHeads; ++h) {
          const float* from = &before[qkv_at(kTokens, b, t, h)];
          const float* to = h < kQueryHeads ? &queries[qkv_at(kTokens, b, t, h)]
                                            : &keys[cache_at(b, h - kQueryHeads, kPast + t)];
          for (int i = 0; i < kRotaryDims / 2; ++i) {
            const double angle = (kPast + t) * frequencies[static_cast<std::size_t>(i)];
            const auto x = static_cast<double>(from[i]);
            const auto y = static_cast<double>(from[i + kRotaryDims / 2]);
            const double margin = roundoff(dtype) * (std::abs(x) + std::abs(y));
            CHECK(static_cast<double>(to[i]) ==
                  Approx(x * std::cos(angle) - y * std::sin(angle)).epsilon(0).margin(margin));
            CHECK(static_cast<double>(to[i + kRotaryDims / 2]) ==
                  Approx(y * std::cos(angle) + x * std::sin(angle)).epsilon(0).margin(margin));
            const double neighbour = static_cast<double>(from[2 * i]) * std::cos(angle) -
                                     static_cast<double>(from[2 * i + 1]) * std::sin(angle);
            interleaved_differs =
                interleaved_differs || std::abs(static_cast<double>(to[2 * i]) - neighbour) > 0.1;
          }
          CHECK(std::memcmp(from + kRotaryDims, to + kRotaryDims, (kHeadDim - kRotaryDims) * sizeof(float)) ==
                0);
        }
        for (int h = 0; h < kKeyHeads; ++h)
          CHECK(std::memcmp(&before[qkv_at(kTokens, b, t, kQueryHeads + kKeyHeads + h)],
                            &values[cache_at(b, h, kPast + t)], kHeadDim * sizeof(float)) == 0);
      }
    }
    CHECK(interleaved_differs);
  }
}

TEST_CASE("a step writes one row of the cache for each head of each sequence and no other") {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    Room room(platform, dtype, partial_rope(), 1);
    room.put(random_numbers(dtype, 1));
    for (const int position : {0, 17, kCapacity - 1}) {
      for (Tensor* cache : {&room.k, &room.v}) {
        const std::vector<unsigned char> poison(cache->view.bytes(), 0xff);
        platform.device->upload(cache->view.data, poison.data(), poison.size());
      }
      room.turn(position);
      for (const Tensor* cache : {&room.k, &room.v}) {
        const Numbers now = room.get(cache->view);
        int wrong = 0;
        for (int b = 0; b < kBatch; ++b)
          for (int h = 0; h < kKeyHeads; ++h)
            for (int t = 0; t < kCapacity; ++t)
              for (int d = 0; d < kHeadDim; ++d)
                wrong += std::isnan(now[cache_at(b, h, t) + static_cast<std::size_t>(d)]) == (t == position);
        CAPTURE(static_cast<int>(dtype), position);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("tokens that are fed in chunks are turned as those fed at once") {
  Platform platform = open_platform(test_device());
  constexpr int kTokens = 9, kFirst = 4;
  for (const DType dtype : dtypes_of(platform)) {
    const Numbers all = random_numbers(dtype, kTokens);
    Room whole(platform, dtype, partial_rope(), kTokens);
    whole.put(all);
    whole.turn(0);
    Room cached(platform, dtype, partial_rope(), kFirst);
    Room rest(platform, dtype, partial_rope(), kTokens - kFirst);
    Numbers first, second;
    for (int b = 0; b < kBatch; ++b) {
      const auto at = [&](int t) {
        return all.begin() + static_cast<std::ptrdiff_t>(qkv_at(kTokens, b, t, 0));
      };
      first.insert(first.end(), at(0), at(kFirst));
      second.insert(second.end(), at(kFirst), at(kTokens - 1) + kHeads * kHeadDim);
    }
    cached.put(first);
    cached.turn(0);
    rest.put(second);
    rest.turn(kFirst);
    const Numbers expected = whole.get(whole.k.view);
    const Numbers early = cached.get(cached.k.view);
    const Numbers late = rest.get(rest.k.view);
    for (int b = 0; b < kBatch; ++b) {
      for (int h = 0; h < kKeyHeads; ++h) {
        CHECK(std::memcmp(&expected[cache_at(b, h, 0)], &early[cache_at(b, h, 0)],
                          kFirst * kHeadDim * sizeof(float)) == 0);
        CHECK(std::memcmp(&expected[cache_at(b, h, kFirst)], &late[cache_at(b, h, kFirst)],
                          (kTokens - kFirst) * kHeadDim * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("a score depends on the distance of query and key alone") {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    const Numbers numbers = random_numbers(dtype, 1);
    Room room(platform, dtype, partial_rope(), 1);
    // turned[position]: query head 0 and key head 0 of sequence 0.
    std::vector<Numbers> queries, keys;
    for (int position = 0; position < kCapacity; ++position) {
      room.put(numbers);
      room.turn(position);
      const Numbers turned = room.get(room.qkv.view);
      queries.emplace_back(turned.begin(), turned.begin() + kHeadDim);
    }
    const Numbers cache = room.get(room.k.view);
    for (int position = 0; position < kCapacity; ++position) {
      const auto row = cache.begin() + static_cast<std::ptrdiff_t>(cache_at(0, 0, position));
      keys.emplace_back(row, row + kHeadDim);
    }
    const auto score = [&](int query, int key, double& size) {
      double sum = 0;
      size = 0;
      for (int d = 0; d < kHeadDim; ++d) {
        const double product =
            static_cast<double>(queries[static_cast<std::size_t>(query)][static_cast<std::size_t>(d)]) *
            static_cast<double>(keys[static_cast<std::size_t>(key)][static_cast<std::size_t>(d)]);
        sum += product;
        size += std::abs(product);
      }
      return sum;
    };
    bool moves = false;
    for (const int distance : {0, 1, 7, 100}) {
      double size = 0;
      const double expected = score(distance, 0, size);
      for (int key = 0; key + distance < kCapacity; ++key)
        // cos and sin in f32 of angles that are rounded to f32 at worst: an angle of 300 to 300 * 2^-24.
        CHECK(score(key + distance, key, size) ==
              Approx(expected).epsilon(0).margin((4 * roundoff(dtype) + 1e-4) * size));
      moves = moves || std::abs(expected - score(0, 0, size)) > 0.1;
    }
    CHECK(moves);
  }
}
