// rope_parameters, rope_scaling, rope_theta, rotary_pct.
#include "lib/model/rope_config.h"

#include <cmath>

namespace attn {

namespace {

constexpr auto kRopeTypes = name_table<RopeScaling>(
    {{RopeScaling::none, "default"}, {RopeScaling::linear, "linear"}, {RopeScaling::llama3, "llama3"}});

double required(const ConfigReader& config, const char* key) {
  if (const auto value = config.find_number({key})) return *value;
  fail(ErrorKind::bad_input, "{}: {} is missing", config.where(), key);
}

RopeScaling read_type(const ConfigReader& scaling) {
  const auto new_name = scaling.find_text({"rope_type"});
  const auto old_name = scaling.find_text({"type"});
  if (new_name && old_name && *new_name != *old_name) {
    fail(ErrorKind::bad_input, "{}: rope_type is '{}' but type is '{}'; they stand for the same value",
         scaling.where(), *new_name, *old_name);
  }
  if (!new_name && !old_name) {
    if (scaling.has("factor")) fail(ErrorKind::bad_input, "{}: rope_type is missing", scaling.where());
    return RopeScaling::none;
  }
  return kRopeTypes.parse(new_name ? *new_name : *old_name, scaling.where() + ": rope type",
                          ErrorKind::unsupported);
}

}  // namespace

RopeConfig read_rope(const ConfigReader& config, int head_dim, double default_share) {
  RopeConfig rope;
  const auto parameters = config.find_object("rope_parameters");
  const auto scaling = config.find_object("rope_scaling");

  auto theta = config.agreed_number({"rope_theta", "rotary_emb_base"});
  auto share = config.agreed_number({"partial_rotary_factor", "rotary_pct"});
  if (parameters) {  // files of newer writers may keep the old keys beside it: then the new ones count
    if (const auto value = parameters->find_number({"rope_theta"})) theta = value;
    if (const auto value = parameters->find_number({"partial_rotary_factor"})) share = value;
  }
  rope.theta = theta.value_or(10000);
  const double turning = head_dim * share.value_or(default_share);
  if (!(turning >= 0 && turning <= head_dim)) {
    fail(ErrorKind::bad_input, "{}: the share of each head that turns must lie in 0 ... 1, but is {}",
         config.where(), share.value_or(default_share));
  }
  rope.rotary_dims = static_cast<int>(turning);

  const auto& settings = parameters ? parameters : scaling;
  if (!settings) return rope;
  rope.scaling = read_type(*settings);
  if (parameters && scaling && read_type(*scaling) != rope.scaling) {
    fail(ErrorKind::bad_input, "{}: rope_parameters and rope_scaling name different rope types",
         config.where());
  }
  if (rope.scaling == RopeScaling::none) return rope;
  rope.factor = required(*settings, "factor");
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_freq_factor = required(*settings, "low_freq_factor");
    rope.high_freq_factor = required(*settings, "high_freq_factor");
    rope.original_max_positions = settings->integer({"original_max_position_embeddings"});
  }
  return rope;
}

}  // namespace attn
