// expect_error: that a call refuses with this kind, and that its message names these things.
#pragma once

#include <initializer_list>
#include <string>

#include "lib/core/error.h"
#include "tests/catch.h"

namespace attn::test {

template <typename Call>
void expect_error(ErrorKind kind, std::initializer_list<const char*> named, Call call) {
  try {
    call();
  } catch (const Error& error) {
    INFO("message: " << error.what());
    CHECK(name(error.kind()) == name(kind));
    for (const char* text : named) {
      INFO("should name: " << text);
      CHECK(std::string(error.what()).find(text) != std::string::npos);
    }
    return;
  }
  FAIL("no error");
}

}  // namespace attn::test
