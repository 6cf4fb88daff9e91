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

void PairedRatio::Blocks::add(double difference, std::int64_t block_tokens) {
  sum += difference;
  if (++in_block < block_tokens) return;
  means.add(sum / static_cast<double>(block_tokens));
  sum = 0;
  in_block = 0;
}

void PairedRatio::add(double base_loss, double other_loss) {
  const double difference = other_loss - base_loss;
  base_.add(base_loss);
  other_.add(other_loss);
  differences_.add(difference);
  if (block_tokens_ > 0) return blocks_.add(difference, block_tokens_);
  kept_.push_back(difference);
  if (error_block_tokens(differences_.count()) < kErrorBlockTokens) return;
  block_tokens_ = kErrorBlockTokens;
  for (const double kept : kept_) blocks_.add(kept, block_tokens_);
  kept_ = {};
}

std::optional<PerplexityRatio> PairedRatio::result() const {
  if (differences_.count() == 0) return std::nullopt;
  const auto tokens = static_cast<double>(differences_.count());
  Blocks blocks = blocks_;
  const std::int64_t block_tokens =
      block_tokens_ > 0 ? block_tokens_ : error_block_tokens(differences_.count());
  for (const double kept : kept_) blocks.add(kept, block_tokens);
  PerplexityRatio out;
  out.tokens = differences_.count();
  out.blocks = blocks.means.count();
  out.base_log_perplexity = base_.sum() / tokens;
  out.other_log_perplexity = other_.sum() / tokens;
  out.log_ratio = differences_.sum() / tokens;
  out.ratio = finite_exp(out.log_ratio);
  if (out.blocks < 2) return out;
  const double error = std::sqrt(blocks.means.variance() * static_cast<double>(block_tokens) / tokens);
  if (!std::isfinite(error)) return out;
  out.log_standard_error = error;
  const double half_width = student_t_975(out.blocks - 1) * error;
  out.low = finite_exp(out.log_ratio - half_width);
  out.high = finite_exp(out.log_ratio + half_width);
  return out;
}

}  // namespace attn
