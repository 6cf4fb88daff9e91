// Batch means of paired differences.
#include "lib/eval/paired_ratio.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

std::optional<double> finite_exp(double x) {
  const double value = std::exp(x);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::int64_t error_block_tokens(std::int64_t tokens_scored) {
  return std::clamp<std::int64_t>(tokens_scored / 20, 16, kErrorBlockTokens);
}

double student_t_975(std::int64_t degrees) {
  // Printed tables to 30; then the expansion of Abramowitz and Stegun 26.7.5 to two terms.
  constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                              2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                              2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees < 1) fail(ErrorKind::internal, "Student's t has no {} degrees of freedom", degrees);
  const auto index = static_cast<std::size_t>(degrees - 1);
  if (index < kTable.size()) return kTable[index];
  constexpr double z = 1.959963985;
  const auto n = static_cast<double>(degrees);
  return z + (std::pow(z, 3) + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n);
}

void PairedRatio::add(double base_loss, double other_loss) {
  const double difference = other_loss - base_loss;
  ++tokens_;
  base_sum_ += base_loss;
  other_sum_ += other_loss;
  difference_sum_ += difference;
  block_sum_ += difference;
  if (++in_block_ < block_tokens_) return;
  const double mean = block_sum_ / static_cast<double>(block_tokens_);
  const double delta = mean - block_mean_;
  block_mean_ += delta / static_cast<double>(++blocks_);
  block_squares_ += delta * (mean - block_mean_);
  block_sum_ = 0;
  in_block_ = 0;
}

std::optional<PerplexityRatio> PairedRatio::result() const {
  if (tokens_ == 0) return std::nullopt;
  const auto tokens = static_cast<double>(tokens_);
  PerplexityRatio out;
  out.tokens = tokens_;
  out.blocks = blocks_;
  out.base_log_perplexity = base_sum_ / tokens;
  out.other_log_perplexity = other_sum_ / tokens;
  out.log_ratio = difference_sum_ / tokens;
  out.ratio = finite_exp(out.log_ratio);
  if (blocks_ < 2) return out;
  const double variance = block_squares_ / static_cast<double>(blocks_ - 1);
  const double error = std::sqrt(variance * static_cast<double>(block_tokens_) / tokens);
  if (!std::isfinite(error)) return out;
  out.log_standard_error = error;
  const double half_width = student_t_975(blocks_ - 1) * error;
  out.low = finite_exp(out.log_ratio - half_width);
  out.high = finite_exp(out.log_ratio + half_width);
  return out;
}

}  // namespace attn
