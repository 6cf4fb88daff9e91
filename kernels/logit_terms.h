// What one token of the vocabulary adds to KL and JS of two softmaxes, on the host and on GPUs alike.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define ATTN_ANY_SIDE __host__ __device__ __forceinline__
#else
#define ATTN_ANY_SIDE inline
#endif

namespace attn {

struct DivergenceTerms {
  double kl = 0, js = 0;
};

// Up to this the series of close_terms are exact to 1e-11; rows that are close cost a third with them.
inline constexpr double kClose = 0.125;

// Taylor series in diff = ln(q / p) of p (e^diff - 1 - diff), and of
// p / 2 (e^diff (diff - m) - m) with m = ln((1 + e^diff) / 2).
ATTN_ANY_SIDE DivergenceTerms close_terms(double p, double diff) {
  const double d = diff;
  const double of_kl =
      1.0 / 2 +
      d * (1.0 / 6 + d * (1.0 / 24 +
                          d * (1.0 / 120 +
                               d * (1.0 / 720 + d * (1.0 / 5040 + d * (1.0 / 40320 + d * (1.0 / 362880)))))));
  const double of_js =
      1.0 / 8 +
      d * (1.0 / 16 +
           d * (1.0 / 64 + d * (1.0 / 384 + d * (1.0 / 2304 + d * (1.0 / 11520 + d * (1.0 / 92160))))));
  return {p * d * d * of_kl, p * d * d * of_js};
}

// What one token of the vocabulary adds. The terms of KL are p ln(p / q) - p + q: their sum is the same,
// since both softmaxes sum to 1, but none is below 0, so nothing cancels where p and q are close.
// diff is ln(q / p): a difference of logits less that of their norms, which is exact where log_q - log_p,
// both rounded, would not be.
ATTN_ANY_SIDE DivergenceTerms divergence_terms(double log_p, double diff) {
  if (diff == 0) return {};
  if (std::fabs(diff) <= kClose) return close_terms(std::exp(log_p), diff);
  const double larger = std::exp(diff > 0 ? log_p + diff : log_p);
  const double shrink = std::expm1(-std::fabs(diff));  // smaller / larger - 1
  const double smaller = larger * (1 + shrink);
  const double log_mean = std::log1p(0.5 * shrink);  // ln((p + q) / 2 / larger)
  DivergenceTerms out;
  out.js = 0.5 * (-larger * log_mean - smaller * (std::fabs(diff) + log_mean));
  const double p = diff < 0 ? larger : smaller;
  const double q = diff < 0 ? smaller : larger;
  if (std::fabs(diff) <= 1) {
    const double growth = diff < 0 ? shrink : -shrink / (1 + shrink);  // q / p - 1
    out.kl = p * (growth - diff);
  } else {
    out.kl = q - p - p * diff;
  }
  return out;
}

// A single term may round to a little below 0, and a sum to a little above ln 2.
ATTN_ANY_SIDE double bounded_kl(double sum) { return sum > 0 ? sum : 0; }
ATTN_ANY_SIDE double bounded_js(double sum) {
  constexpr double kLn2 = 0.69314718055994530942;
  return sum > 0 ? (sum < kLn2 ? sum : kLn2) : 0;
}

}  // namespace attn

#undef ATTN_ANY_SIDE
