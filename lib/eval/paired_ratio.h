// PairedRatio: the ratio of two perplexities over the same tokens, with an error bar that knows they are
// paired.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/eval/moments.h"

namespace attn {

// Tokens that stand together in one block of the error bar: far more than the few over which losses of
// neighbours move together.
inline constexpr std::int64_t kErrorBlockTokens = 256;

// kErrorBlockTokens, or less for short texts, so that there are about twenty blocks; never below 16 tokens.
std::int64_t error_block_tokens(std::int64_t tokens_scored);

struct PerplexityRatio {
  std::int64_t tokens = 0;
  std::int64_t blocks = 0;  // whole ones, which the error bar rests on
  double base_log_perplexity = 0, other_log_perplexity = 0;
  double log_ratio = 0;  // mean of (loss of other - loss of base): ln(PPL other / PPL base)
  // s sqrt(B / N): s the standard deviation (divisor k - 1) of the k whole blocks' means, B tokens a block, N
  // tokens in all. Nothing for fewer than two whole blocks.
  std::optional<double> log_standard_error;
  // exp(log_ratio), and its 95 % interval exp(log_ratio -+ t log_standard_error) with Student's t of k - 1
  // degrees of freedom. Nothing where that is beyond a double.
  std::optional<double> ratio, low, high;
};

// Each token's difference of losses is one number: what makes a token hard is in both and cancels, so the bar
// is far narrower than that of either perplexity. Differences of neighbouring tokens are not independent, but
// means of long blocks nearly are: the method of non-overlapping batch means (Schmeiser 1982, Operations
// Research 30), applied to paired differences. Bounded memory; sums in f64.
class PairedRatio {
 public:
  // Blocks of error_block_tokens() of all that will have been added: differences are kept one by one (40 KiB)
  // until it is known that blocks have their full length.
  PairedRatio() = default;
  explicit PairedRatio(std::int64_t block_tokens) : block_tokens_(block_tokens) {}

  // Losses of one token in nats, finite, in the order of the text.
  void add(double base_loss, double other_loss);
  // Nothing for no tokens.
  std::optional<PerplexityRatio> result() const;

 private:
  // Means of whole blocks.
  struct Blocks {
    RunningMoments means;
    std::int64_t in_block = 0;
    double sum = 0;
    void add(double difference, std::int64_t block_tokens);
  };

  std::int64_t block_tokens_ = 0;  // 0: not known yet
  RunningMoments base_, other_, differences_;
  Blocks blocks_;
  std::vector<double> kept_;  // all differences, while the length of blocks is not known
};

// The 97.5 % point of Student's t with this many degrees of freedom (at least 1), to three decimals.
double student_t_975(std::int64_t degrees);

}  // namespace attn
