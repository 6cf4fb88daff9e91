// Keys and columns.
#include "apps/attnppl/divergence_fields.h"

#include "lib/eval/divergence.h"

namespace attn {
namespace {

constexpr double kDeltaPercentiles[] = {0.01, 0.05, 0.5, 0.95, 0.99};

void add_figures(Fields& fields, const Divergence& divergence) {
  fields["positions"] = divergence.rows;
  if (divergence.rows == 0) return;
  fields["max_diff"] = divergence.max_diff;
  fields["mean_diff"] = divergence.mean_diff();
  fields["mean_kl"] = divergence.mean_kl();
  fields["max_kl"] = divergence.max_kl;
  fields["kl_p50"] = divergence.kl.quantile(0.5);
  fields["kl_p99"] = divergence.kl.quantile(0.99);
  fields["mean_js"] = divergence.mean_js();
  fields["max_js"] = divergence.max_js;
  fields["argmax_agreement"] = divergence.argmax_agreement();
  fields["top5_agreement"] = divergence.top5_agreement();
  fields["mean_delta_p"] = divergence.mean_delta_p();
  fields["rms_delta_p"] = divergence.rms_delta_p();
  for (const double fraction : kDeltaPercentiles)
    fields[fmt::format("delta_p_p{:02.0f}", 100 * fraction)] = divergence.delta_p.quantile(fraction);
  const auto ratio = divergence.perplexity.result();
  if (!ratio) return;
  fields["log_ppl_ratio"] = ratio->log_ratio;
  fields["log_ppl_ratio_error"] = ratio->log_standard_error;
  fields["ppl_ratio"] = ratio->ratio;
  fields["ppl_ratio_low"] = ratio->low;
  fields["ppl_ratio_high"] = ratio->high;
  fields["ppl_ratio_blocks"] = ratio->blocks;
}

std::string row_text(const std::string& seen, const Divergence& d) {
  const auto delta = [&](double fraction) { return d.delta_p.quantile(fraction).value_or(0); };
  const auto ratio = d.perplexity.result();
  const std::string ratio_text = !ratio || !ratio->ratio ? "-" : fmt::format("{:.8f}", *ratio->ratio);
  const std::string interval = !ratio || !ratio->low || !ratio->high
                                   ? "-"
                                   : fmt::format("{:.8f} ... {:.8f}", *ratio->low, *ratio->high);
  return fmt::format(
      "{:<12} {:>9} {:>10.3e} {:>10.3e} {:>10.3e} {:>8.3f} {:>8.3f} {:>10.3e} {:>10.2e} {:>10.2e} {:>10.2e} "
      "{:>12} {:>27}\n",
      seen, d.rows, d.mean_kl(), d.max_kl, d.mean_js(), 100 * d.argmax_agreement(), 100 * d.top5_agreement(),
      d.max_diff, delta(0.01), delta(0.5), delta(0.99), ratio_text, interval);
}

}  // namespace

Fields divergence_fields(const PplVariant& against, const BucketedDivergence& divergence) {
  Fields fields{{"against", against.reference ? against.text() : against.mode},
                {"against_path", kForwardPathNames.name(against.path)}};
  add_figures(fields, divergence.all());
  fields["nonfinite_positions"] = divergence.all().nonfinite_rows;
  Value::Array buckets;
  for (const PositionBucket& bucket : divergence.buckets()) {
    if (bucket.divergence.rows == 0) continue;
    Fields of_bucket{{"seen", bucket.name()}};
    add_figures(of_bucket, bucket.divergence);
    buckets.emplace_back(std::move(of_bucket));
  }
  fields["buckets"] = std::move(buckets);
  return fields;
}

std::string divergence_table(const PplVariant& variant, const PplVariant& against,
                             const BucketedDivergence& divergence) {
  std::string text = fmt::format(
      "{} against {}\n{:<12} {:>9} {:>10} {:>10} {:>10} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>12} "
      "{:>27}\n",
      variant.text(), against.text(), "tokens seen", "positions", "mean KL", "max KL", "mean JS", "top-1 %",
      "top-5 %", "max |dz|", "dp 1 %", "dp 50 %", "dp 99 %", "ppl ratio", "95 % interval");
  text += row_text("all", divergence.all());
  for (const PositionBucket& bucket : divergence.buckets()) {
    if (bucket.divergence.rows > 0) text += row_text(bucket.name(), bucket.divergence);
  }
  return text;
}

}  // namespace attn
