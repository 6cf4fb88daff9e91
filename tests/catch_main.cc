// The main function of every test program, compiled once (Catch2 2.13).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
