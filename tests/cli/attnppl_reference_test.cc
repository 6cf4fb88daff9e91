// attnppl under every protocol against transformers' figures, on parts of the texts.
#include "tests/catch.h"
#include "tests/cli/perplexity_golden.h"

using namespace attn;

TEST_CASE("protocol full gives the sums of transformers and the published perplexities") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "full", false);
  check_perplexity_goldens("stories260K", "full", false);
}

TEST_CASE("protocol hf-strided gives the sums of the guide") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "hf-strided", false);
  check_perplexity_goldens("stories260K", "hf-strided", false);
}

TEST_CASE("protocol lm-eval gives the sums of the harness") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "lm-eval", false);
  check_perplexity_goldens("stories260K", "lm-eval", false);
}

TEST_CASE("protocol llama.cpp gives the sums of its chunks") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "llama.cpp", false);
  check_perplexity_goldens("stories260K", "llama.cpp", false);
}

TEST_CASE("the legacy protocols give their sums and full beside them") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "legacy-rows", false);
  check_perplexity_goldens("demo", "legacy-window", false);
}
