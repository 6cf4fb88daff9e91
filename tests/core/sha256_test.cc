// SHA-256 against the vectors of FIPS 180-4 and its own streaming.
#include "lib/core/sha256.h"

#include <string>
#include <string_view>

#include "tests/catch.h"

using namespace attn;

namespace {
std::string hash(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }
}  // namespace

TEST_CASE("sha256 of nothing") {
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("sha256 of abc") {
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("sha256 of the two-block message") {
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("sha256 of a million times a") {
  CHECK(hash(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 does not depend on how the bytes are cut") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = hash(text);
  for (std::size_t cut : {1U, 55U, 56U, 63U, 64U, 65U, 127U, 128U, 129U, 299U}) {
    Sha256 streamed;
    streamed.update(std::as_bytes(std::span(text).first(cut)));
    streamed.update(std::as_bytes(std::span(text).subspan(cut)));
    CHECK(streamed.finish() == whole);
  }
}

TEST_CASE("sha256 pads every length around a block") {
  // Distinct lengths give distinct hashes; a padding error repeats or crashes.
  std::string last;
  for (std::size_t n = 50; n < 140; ++n) {
    const std::string now = hash(std::string(n, 'x'));
    CHECK(now != last);
    last = now;
  }
}
