// Error kinds, their exit codes, and name tables.
#include "lib/core/error.h"

#include <string>

#include "lib/core/enum_names.h"
#include "tests/catch.h"

using namespace attn;

namespace {
enum class Fruit { apple, pear };
constexpr auto kFruits =
    name_table<Fruit>({{Fruit::apple, "apple"}, {Fruit::pear, "pear"}, {Fruit::pear, "williams"}});
}  // namespace

TEST_CASE("each error kind has its exit code") {
  CHECK(exit_code(ErrorKind::usage) == 2);
  CHECK(exit_code(ErrorKind::bad_input) == 3);
  CHECK(exit_code(ErrorKind::unsupported) == 4);
  CHECK(exit_code(ErrorKind::out_of_memory) == 5);
  CHECK(exit_code(ErrorKind::device) == 6);
  CHECK(exit_code(ErrorKind::internal) == 7);
}

TEST_CASE("fail throws the kind and the formatted message") {
  try {
    fail(ErrorKind::bad_input, "{}: {} bytes", "file", 3);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::bad_input);
    CHECK(std::string(error.what()) == "file: 3 bytes");
    return;
  }
  FAIL("nothing was thrown");
}

TEST_CASE("a name table parses every name and writes the first") {
  CHECK(kFruits.parse("williams", "fruit") == Fruit::pear);
  CHECK(kFruits.name(Fruit::pear) == "pear");
  CHECK_FALSE(kFruits.find("plum"));
}

TEST_CASE("an unknown name is refused with the list of known ones") {
  try {
    kFruits.parse("plum", "--fruit");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(std::string(error.what()) ==
          "--fruit 'plum' is not known; it must be one of: apple, pear, williams");
    return;
  }
  FAIL("nothing was thrown");
}
