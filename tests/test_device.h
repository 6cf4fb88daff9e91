// The device that tests of any device run on: what ATTN_TEST_DEVICE says, or the CPU.
#pragma once

#include <cstdlib>
#include <string>

namespace attn {

inline std::string test_device() {
  const char* device = std::getenv("ATTN_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

}  // namespace attn
