// Shape: the extents of up to four axes, outermost first.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace attn {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t elements() const;  // 1 for rank 0
  std::string text() const;       // "[2, 3]"
  bool operator==(const Shape& other) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace attn
