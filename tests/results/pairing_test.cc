// Which records are compared, and what is said of the others.
#include "lib/results/pairing.h"

#include "tests/catch.h"

using namespace attn;

namespace {

ResultRecord record(const std::string& mode, int batch_size, const std::string& source) {
  ResultRecord r;
  r.app = "attnbench";
  r.source = source;
  r.parameters = {{"model", "demo"}, {"batch_size", batch_size}, {"mode", mode}, {"kernels", mode + "_rows"}};
  r.environment = {{"device", "cpu"}, {"git_commit", "aaaa"}, {"build_type", "Release"}};
  return r;
}

Pairing pairing_of(const std::vector<ResultRecord>& records) {
  return pair_records(records, "baseline", "flash");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("records that differ in the mode alone are paired") {
  const std::vector records{record("baseline", 1, "a"), record("baseline", 8, "b"), record("flash", 8, "c"),
                            record("flash", 1, "d")};
  const Pairing pairing = pairing_of(records);
  REQUIRE(pairing.pairs.size() == 2);
  CHECK(pairing.unpaired.empty());
  CHECK(pairing.warnings.empty());
  CHECK(pairing.pairs[0].base.front()->source == "a");
  CHECK(pairing.pairs[0].other.front()->source == "d");
  CHECK_FALSE(pairing.pairs[0].parameters.find("mode"));
  CHECK_FALSE(pairing.pairs[0].parameters.find("kernels"));
}

TEST_CASE("records with another setting are not paired and the setting is named") {
  const std::vector records{record("baseline", 1, "a"), record("flash", 8, "b")};
  const Pairing pairing = pairing_of(records);
  CHECK(pairing.pairs.empty());
  REQUIRE(pairing.unpaired.size() == 2);
  CHECK(contains(pairing.unpaired[0].reason, "flash"));
  CHECK(contains(pairing.unpaired[0].reason, "batch_size (1, 8)"));
  CHECK(contains(pairing.unpaired[1].reason, "batch_size (8, 1)"));
}

TEST_CASE("a setting that only one side states keeps the records apart") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[1].parameters["seed"] = 7;
  const Pairing pairing = pairing_of(records);
  CHECK(pairing.pairs.empty());
  CHECK(contains(pairing.unpaired.at(0).reason, "seed (missing, 7)"));
  records[1].parameters["seed"] = Value();  // null is missing
  CHECK(pairing_of(records).pairs.size() == 1);
}

TEST_CASE("perplexities of two protocols or recipes are never compared") {
  for (const std::string key : {"protocol", "dataset_sha256", "token_sha256", "context", "stride", "bos",
                                "text", "detokenizer", "average", "softmax_dtype"}) {
    std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
    for (ResultRecord& r : records) {
      r.app = "attnppl";
      r.parameters[key] = "full";
    }
    CHECK(pairing_of(records).pairs.size() == 1);
    records[1].parameters[key] = "llama.cpp";
    const Pairing pairing = pairing_of(records);
    CHECK(pairing.pairs.empty());
    CHECK(contains(pairing.unpaired.at(0).reason, key + " (full, llama.cpp)"));
  }
}

TEST_CASE("equal settings in another spelling are equal") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[0].parameters["sampling"] = Fields{{"temperature", 0}, {"top_k", 5}};
  records[1].parameters["sampling"] = Fields{{"top_k", 5.0}, {"temperature", 0.0}};
  CHECK(pairing_of(records).pairs.size() == 1);
  records[1].parameters["sampling"] = Fields{{"top_k", 6}, {"temperature", 0}};
  CHECK(pairing_of(records).pairs.empty());
}

TEST_CASE("another device or build is never paired") {
  for (const std::string key : {"device", "build_type", "compiler", "compiler_flags"}) {
    std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
    records[1].environment[key] = "something else";
    const Pairing pairing = pairing_of(records);
    CHECK(pairing.pairs.empty());
    CHECK(contains(pairing.unpaired.at(0).reason, "environment." + key));
  }
}

TEST_CASE("a peer has no compiler and pairs with ours") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[0].environment = {{"device", "cpu"}, {"git_commit", "aaaa"}, {"peer", "torch"}};
  records[1].environment["compiler"] = "GNU 12";
  CHECK(pairing_of(records).pairs.size() == 1);
  CHECK(pairing_of(records).warnings.empty());
  records.push_back(record("flash", 1, "c"));
  records[2].environment["compiler"] = "Clang 14";
  const Pairing both = pairing_of(records);
  REQUIRE(both.pairs.size() == 1);
  CHECK(both.pairs[0].other.size() == 2);
  REQUIRE(both.warnings.size() == 1);
  CHECK(contains(both.warnings[0], "environment.compiler differs: Clang 14 (c), GNU 12 (b)"));

  records[0].environment["device"] = "something else";
  CHECK(pairing_of(records).pairs.empty());
  records[0] = record("baseline", 1, "a");
  CHECK(pairing_of(records).pairs.empty());  // no peer, no compiler named
}

TEST_CASE("another program is never paired") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[1].app = "attnppl";
  const Pairing pairing = pairing_of(records);
  CHECK(pairing.pairs.empty());
  CHECK(contains(pairing.unpaired.at(0).reason, "there is no flash record of attnbench"));
}

TEST_CASE("another commit is paired with a warning") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[1].environment["git_commit"] = "bbbb";
  const Pairing pairing = pairing_of(records);
  CHECK(pairing.pairs.size() == 1);
  REQUIRE(pairing.warnings.size() == 1);
  CHECK(contains(pairing.warnings[0], "git_commit"));
  CHECK(contains(pairing.warnings[0], "aaaa"));
  CHECK(contains(pairing.warnings[0], "bbbb"));
}

TEST_CASE("a debug build is warned of") {
  std::vector records{record("baseline", 1, "a"), record("flash", 1, "b")};
  records[0].environment["build_warning"] = "not an optimised build";
  const Pairing pairing = pairing_of(records);
  REQUIRE(pairing.warnings.size() == 1);
  CHECK(contains(pairing.warnings[0], "not an optimised build"));
}

TEST_CASE("a configuration measured several times is one pair with all its records") {
  const std::vector records{record("baseline", 1, "a"), record("baseline", 1, "b"), record("flash", 1, "c")};
  const Pairing pairing = pairing_of(records);
  REQUIRE(pairing.pairs.size() == 1);
  CHECK(pairing.pairs[0].base.size() == 2);
  CHECK(pairing.pairs[0].other.size() == 1);
}

TEST_CASE("a record of a third mode or of none is listed") {
  std::vector records{record("reference", 1, "a"), record("flash", 1, "b")};
  records[1].parameters.erase("mode");
  const Pairing pairing = pairing_of(records);
  REQUIRE(pairing.unpaired.size() == 2);
  CHECK(contains(pairing.unpaired[0].reason, "reference"));
  CHECK(contains(pairing.unpaired[1].reason, "no mode"));
}
