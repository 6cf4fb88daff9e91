// attnppl against transformers' figures on the whole of wiki.test and of four books.
#include "tests/catch.h"
#include "tests/cli/perplexity_golden.h"

using namespace attn;

TEST_CASE("the whole of wiki.test under full is what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "full", true);
}

TEST_CASE("the whole of wiki.test under hf-strided is what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "hf-strided", true);
}

TEST_CASE("the whole of wiki.test under lm-eval is what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "lm-eval", true);
}

TEST_CASE("the whole of wiki.test under llama.cpp is what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "llama.cpp", true);
}

TEST_CASE("system B's 128 rows of wiki.test are what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "legacy-rows", true);
}

TEST_CASE("four books under legacy-window and full are what transformers gives") {
  if (const std::string reason = why_no_perplexity_goldens(); !reason.empty()) ATTN_SKIP(reason.c_str());
  check_perplexity_goldens("demo", "legacy-window", true);
}
