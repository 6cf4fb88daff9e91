// TextFile on plain and compressed files, whole and by lines, sound and damaged.
#include "lib/core/text_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <zstd.h>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "tests/catch.h"

using namespace attn;

namespace {

std::filesystem::path write(const std::string& name, const std::string& bytes) {
  const auto path = std::filesystem::temp_directory_path() / ("attn_text_file_test_" + name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string packed(const std::string& bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), bytes.data(), bytes.size(), 1));
  return result;
}

// Hard to compress and longer than every buffer in between.
std::string long_text() {
  std::string text;
  for (std::uint64_t i = 0; i < 400000; ++i) {
    const std::uint64_t bits = random_bits(3, 0, i);
    text += bits % 50 == 0 ? '\n' : static_cast<char>(bits >> 8);
  }
  return text;
}

}  // namespace

TEST_CASE("text file: plain and zst give the same bytes whatever the size of the reads") {
  const std::string text = long_text();
  const std::string two_frames = packed(text.substr(0, 1000)) + packed(text.substr(1000));
  for (const auto& path :
       {write("a.bin", text), write("a.bin.zst", packed(text)), write("b.zst", two_frames)}) {
    INFO(path.string());
    CHECK((read_text_file(path) == text));
    for (const std::size_t step : {1000U, 65536U, 1000000U}) {
      TextFile file(path);
      std::string got, buffer(step, '\0');
      std::size_t size = 0;
      while ((size = file.read(buffer)) > 0) got.append(buffer, 0, size);
      CHECK((got == text));
      CHECK(file.read(buffer) == 0);
    }
    std::filesystem::remove(path);
  }
}

TEST_CASE("text file: lines keep their carriage return and the last may lack its end") {
  const std::string text = long_text() + "\nlast\r";
  for (const auto& path : {write("l.txt", text), write("l.txt.zst", packed(text))}) {
    TextFile file(path);
    std::string line, joined;
    bool ended = false;
    while (file.read_line(line, &ended)) joined += line + (ended ? "\n" : "");
    CHECK((joined == text));
    CHECK_FALSE(ended);
    CHECK_FALSE(file.read_line(line));
    TextFile again(path);
    CHECK_THROWS_AS(again.read_line(line, nullptr, 3), Error);
    // A read after a line goes on behind it.
    TextFile mixed(path);
    mixed.read_line(line);
    std::string rest(text.size(), '\0');
    rest.resize(mixed.read(rest));
    CHECK((line + "\n" + rest == text));
    std::filesystem::remove(path);
  }
  const auto empty = write("empty.txt", "");
  std::string line;
  CHECK_FALSE(TextFile(empty).read_line(line));
  CHECK(read_text_file(empty).empty());
  std::filesystem::remove(empty);
}

TEST_CASE("text file: damaged zst is bad input at every cut") {
  const std::string whole = packed(std::string(300, 'x') + long_text().substr(0, 500));
  for (std::size_t size = 1; size < whole.size(); size += 7) {
    const auto path = write("cut.zst", whole.substr(0, size));
    CHECK_THROWS_AS(read_text_file(path), Error);
  }
  const auto path = write("cut.zst", "plain text");
  CHECK_THROWS_AS(read_text_file(path), Error);
  CHECK_THROWS_AS(read_text_file(write("cut.zst", whole), 100), Error);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(read_text_file(path), Error);
  CHECK_THROWS_AS(read_text_file(std::filesystem::temp_directory_path()), Error);
}
