// Catch2 of either generation, and ATTN_SKIP for what cannot run on this machine.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>

// Ends the test case as skipped: CTest recognises the line (cmake/functions.cmake).
#define ATTN_SKIP(reason)                    \
  do {                                       \
    std::printf("[skipped] %s\n", (reason)); \
    SUCCEED("skipped");                      \
    return;                                  \
  } while (false)
