// The random numbers are reproducible and have the moments they claim.
#include "lib/core/rng.h"

#include "tests/catch.h"

using namespace attn;

TEST_CASE("a random value depends on seed, stream and index alone") {
  CHECK(random_bits(1, 2, 3) == random_bits(1, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(2, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 3, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 2, 4));
}

TEST_CASE("uniform values lie between 0 and 1 with mean one half") {
  double sum = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const float u = random_uniform(7, 0, i);
    REQUIRE(u >= 0.0F);
    REQUIRE(u < 1.0F);
    sum += u;
  }
  CHECK(sum / 20000 == Approx(0.5).margin(0.01));
}

TEST_CASE("normal values have mean 0, variance 1 and are finite") {
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    const double x = random_normal(7, 1, i);
    REQUIRE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  CHECK(sum / 40000 == Approx(0).margin(0.02));
  CHECK(squares / 40000 == Approx(1).margin(0.03));
}
