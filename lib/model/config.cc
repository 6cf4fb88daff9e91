// ModelConfig from config.json: the family decides how it reads, the checks are the same for all.
#include "lib/model/config.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "lib/core/mapped_file.h"
#include "lib/model/config_reader.h"
#include "lib/model/family.h"
#include "lib/model/json_text.h"

namespace attn {

namespace {

Family read_family(const ConfigReader& reader) {
  if (const auto type = reader.find_text({"model_type"}))
    return kFamilyNames.parse(*type, std::string(reader.where()) + ": model_type", ErrorKind::unsupported);
  // Files from before model_type was written name the class alone.
  const auto architectures = reader.texts("architectures");
  for (const std::string& architecture : architectures) {
    for (const Family family : families()) {
      if (architecture.starts_with(family_traits(family).architecture)) return family;
    }
  }
  if (!architectures.empty()) {
    fail(ErrorKind::unsupported, "{}: architecture '{}' is not known; the families are: {}", reader.where(),
         architectures.front(), kFamilyNames.list());
  }
  fail(ErrorKind::bad_input, "{}: model_type is missing; it must be one of: {}", reader.where(),
       kFamilyNames.list());
}

// Settings that would change results and that nothing here implements.
void refuse_the_unknown(const ConfigReader& reader) {
  if (reader.is_filled("quantization_config"))
    fail(ErrorKind::unsupported, "{}: quantization_config: quantised weights are not implemented",
         reader.where());
  if (reader.is_filled("pruned_heads"))
    fail(ErrorKind::unsupported, "{}: pruned_heads are not implemented", reader.where());
}

void check_range(std::string_view where, std::string_view what, std::int64_t value, std::int64_t low,
                 std::int64_t high) {
  if (value < low || value > high)
    fail(ErrorKind::bad_input, "{}: {} must be at least {} and at most {}, but is {}", where, what, low, high,
         value);
}

}  // namespace

float ModelConfig::attention_scale(int layer) const {
  double scale = 1;
  if (scale_attention) scale /= std::sqrt(static_cast<double>(head_dim));
  if (scale_attention_by_layer) scale /= layer + 1;
  return static_cast<float>(scale);
}

std::int64_t ModelConfig::parameter_count() const {
  const std::int64_t width = hidden;
  const std::int64_t qkv = qkv_rows();
  const std::int64_t heads_width = std::int64_t{q_heads} * head_dim;
  const std::int64_t ffn_rows = std::int64_t{ffn_hidden} * (gated_mlp ? 2 : 1);
  const std::int64_t norm_size = norm == NormKind::layer_norm ? 2 * width : width;

  std::int64_t layer =
      2 * norm_size + qkv * width + width * heads_width + ffn_rows * width + width * ffn_hidden;
  if (attention_bias) layer += qkv + width;
  if (mlp_bias) layer += ffn_rows + width;
  std::int64_t total = layers * layer + norm_size + vocab * width;
  if (position == PositionKind::learned) total += max_positions * width;
  if (!tied_embeddings) total += vocab * width;
  return total;
}

void validate(const ModelConfig& config, std::string_view where) {
  // The limits are far above any model, and keep every product of two sizes inside 63 bits.
  check_range(where, "number of layers", config.layers, 1, 10'000);
  check_range(where, "hidden size", config.hidden, 1, 1 << 20);
  check_range(where, "number of attention heads", config.q_heads, 1, 1 << 14);
  check_range(where, "number of key and value heads", config.kv_heads, 1, config.q_heads);
  check_range(where, "head dimension", config.head_dim, 1, 1 << 14);
  check_range(where, "width of the MLP", config.ffn_hidden, 1, 1 << 22);
  check_range(where, "vocab_size", config.vocab, 1, 1 << 26);
  check_range(where, "number of positions", config.max_positions, 1, 1 << 28);
  if (config.q_heads % config.kv_heads != 0) {
    fail(ErrorKind::bad_input, "{}: {} attention heads cannot share {} key and value heads evenly", where,
         config.q_heads, config.kv_heads);
  }
  if (config.family != Family::llama && config.q_heads * config.head_dim != config.hidden) {
    fail(ErrorKind::bad_input, "{}: hidden size {} is not a multiple of {} attention heads", where,
         config.hidden, config.q_heads);
  }
  check_range(where, "rows of queries, keys and values",
              (std::int64_t{config.q_heads} + 2 * config.kv_heads) * config.head_dim, 3, 1 << 24);
  if (!(config.norm_eps >= 0 && config.norm_eps < 1)) {
    fail(ErrorKind::bad_input, "{}: epsilon of the norms must be at least 0 and below 1, but is {}", where,
         config.norm_eps);
  }
  if (config.position != PositionKind::rotary) return;

  const RopeConfig& rope = config.rope;
  if (rope.rotary_dims < 2 || rope.rotary_dims % 2 != 0 || rope.rotary_dims > config.head_dim) {
    fail(ErrorKind::bad_input, "{}: {} dimensions of each head turn; it must be an even number from 2 to {}",
         where, rope.rotary_dims, config.head_dim);
  }
  if (!(rope.theta > 1 && std::isfinite(rope.theta)))
    fail(ErrorKind::bad_input, "{}: rope_theta must be above 1, but is {}", where, rope.theta);
  if (rope.scaling == RopeScaling::none) return;
  if (!(rope.factor >= 1 && std::isfinite(rope.factor)))
    fail(ErrorKind::bad_input, "{}: the rope factor must be at least 1, but is {}", where, rope.factor);
  if (rope.scaling != RopeScaling::llama3) return;
  if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
        std::isfinite(rope.high_freq_factor))) {
    fail(ErrorKind::bad_input,
         "{}: llama3 rope needs 0 < low_freq_factor < high_freq_factor, but they are {} and {}", where,
         rope.low_freq_factor, rope.high_freq_factor);
  }
  check_range(where, "original_max_position_embeddings", rope.original_max_positions, 1, 1 << 28);
}

ModelConfig parse_config(std::string_view json_text, std::string_view where) {
  const nlohmann::json object = parse_json_object(json_text, where);
  const ConfigReader reader(object, std::string(where));
  ModelConfig config;
  config.family = read_family(reader);
  refuse_the_unknown(reader);
  config.vocab = reader.integer({"vocab_size"});
  family_traits(config.family).read_config(reader, config);
  validate(config, where);
  // Small models often keep the ids of the vocabulary they were cut from: a token that cannot occur is no
  // token.
  const auto drop_outside = [&](std::optional<int>& id) {
    if (id && (*id < 0 || *id >= config.vocab)) id.reset();
  };
  drop_outside(config.bos);
  drop_outside(config.eos);
  return config;
}

ModelConfig read_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  if (!std::filesystem::exists(path)) {
    fail(ErrorKind::bad_input,
         "{}: is not there; a model's folder needs config.json and safetensors files (tools/fetch_model gets "
         "them)",
         path.string());
  }
  const MappedFile file(path);
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  if (file.bytes().size() > kMaxBytes)
    fail(ErrorKind::bad_input, "{}: {} bytes are too many for a config", path.string(), file.bytes().size());
  return parse_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                      path.string());
}

}  // namespace attn
