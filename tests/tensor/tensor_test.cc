// Shapes, views, and the ownership of buffers.
#include "lib/tensor/tensor.h"

#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "tests/catch.h"

using namespace attn;

namespace {

// 0, 1, 2, ... so that an element's value is its place.
std::vector<float> counting(int count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = static_cast<float>(i);
  return out;
}

float at(const TensorView& view, std::int64_t i, std::int64_t j, std::int64_t k) {
  return view.as<float>()[i * view.stride(0) + j * view.stride(1) + k * view.stride(2)];
}

}  // namespace

TEST_CASE("a shape knows its axes and its elements") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.elements() == 24);
  CHECK(shape.text() == "[2, 3, 4]");
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{5, 0}.elements() == 0);
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5}), Error);
}

TEST_CASE("a new view is dense and row major") {
  auto data = counting(24);
  const TensorView view(data.data(), DType::f32, {2, 3, 4});
  CHECK(view.dense());
  CHECK(view.bytes() == 96);
  CHECK(at(view, 1, 2, 3) == 23);
  CHECK(at(view, 0, 1, 0) == 4);
  CHECK(TensorView().empty());
}

TEST_CASE("a slice shows the same memory from another place") {
  auto data = counting(24);
  const TensorView view(data.data(), DType::f32, {2, 3, 4});
  const TensorView middle = view.slice(1, 1, 2);
  CHECK(middle.shape == Shape{2, 2, 4});
  CHECK(at(middle, 1, 0, 0) == 16);
  CHECK_FALSE(middle.dense());
  CHECK(view.slice(0, 1, 1).dense());
  const TensorView columns = view.slice(2, 1, 2);
  CHECK(at(columns, 1, 1, 1) == 18);
  CHECK(view.slice(1, 3, 0).shape.elements() == 0);
  CHECK_THROWS_AS(view.slice(1, 2, 2), Error);
  CHECK_THROWS_AS(view.slice(3, 0, 1), Error);
  CHECK_THROWS_AS(view.slice(0, -1, 1), Error);
}

TEST_CASE("a slice of two byte elements moves by two bytes") {
  std::vector<std::uint16_t> data(12);
  const TensorView view(data.data(), DType::bf16, {3, 4});
  CHECK(view.slice(0, 1, 1).as<std::uint16_t>() == data.data() + 4);
  CHECK(view.slice(1, 3, 1).as<std::uint16_t>() == data.data() + 3);
}

TEST_CASE("only dense views of equal size are reshaped") {
  auto data = counting(24);
  const TensorView view(data.data(), DType::f32, {2, 3, 4});
  CHECK(view.reshaped({6, 4}).stride(0) == 4);
  CHECK(view.reshaped({4, 6, 1}).shape == Shape{4, 6, 1});
  CHECK_THROWS_AS(view.reshaped({5, 5}), Error);
  CHECK_THROWS_AS(view.slice(2, 0, 2).reshaped({12}), Error);
}

TEST_CASE("the last axis of a strided view splits in two") {
  auto data = counting(40);
  const TensorView rows(data.data(), DType::f32, {4, 10});
  const TensorView part = rows.slice(1, 2, 6);  // rows stay 10 apart
  const TensorView heads = part.split_last(2, 3);
  CHECK(heads.shape == Shape{4, 2, 3});
  CHECK(at(heads, 3, 1, 2) == 3 * 10 + 2 + 5);
  CHECK_THROWS_AS(part.split_last(2, 4), Error);
}

TEST_CASE("a buffer is given back exactly once") {
  int released = 0;
  std::size_t bytes = 0;
  char memory[16];
  {
    Buffer first(memory, sizeof memory, [&](void* data, std::size_t size) {
      released += data == memory;
      bytes = size;
    });
    Buffer second = std::move(first);
    CHECK(first.data() == nullptr);
    CHECK(second.bytes() == 16);
    Buffer third;
    third = std::move(second);
    CHECK(third.data() == memory);
    CHECK(released == 0);
  }
  CHECK(released == 1);
  CHECK(bytes == 16);
}
