// Mapped files: their bytes, and files that cannot be mapped.
#include "lib/core/mapped_file.h"

#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "tests/catch.h"

using namespace attn;

TEST_CASE("a mapped file shows its bytes, an empty one none, a missing one an error") {
  const auto path = std::filesystem::temp_directory_path() / "attn_mapped_file_test";
  std::ofstream(path) << "hello";
  {
    MappedFile file(path);
    REQUIRE(file.bytes().size() == 5);
    CHECK(std::to_integer<char>(file.bytes()[4]) == 'o');
    MappedFile moved(std::move(file));
    CHECK(moved.bytes().size() == 5);
  }
  std::ofstream(path, std::ios::trunc);
  CHECK(MappedFile(path).bytes().empty());
  std::filesystem::remove(path);
  CHECK_THROWS_AS(MappedFile(path), Error);
  CHECK_THROWS_AS(MappedFile(std::filesystem::temp_directory_path()), Error);
}
