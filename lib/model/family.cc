// The list of families, and what their tables share.
#include "lib/model/family.h"

namespace attn {

namespace {

// The names of Hugging Face's activation table. gelu_fast and gelu_new write the same tanh form in two ways.
constexpr auto kActivationNames = name_table<Activation>({{Activation::gelu_erf, "gelu"},
                                                          {Activation::gelu_erf, "gelu_python"},
                                                          {Activation::gelu_tanh, "gelu_new"},
                                                          {Activation::gelu_tanh, "gelu_fast"},
                                                          {Activation::gelu_tanh, "gelu_pytorch_tanh"},
                                                          {Activation::relu, "relu"},
                                                          {Activation::silu, "silu"},
                                                          {Activation::silu, "swish"}});

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{Family::gpt2, Family::gpt_neox, Family::llama};
  return all;
}

const FamilyTraits& family_traits(Family family) {
  switch (family) {
    case Family::gpt2: return kGpt2Traits;
    case Family::gpt_neox: return kGptNeoxTraits;
    case Family::llama: return kLlamaTraits;
  }
  fail(ErrorKind::internal, "a family without traits");
}

Activation read_activation(const ConfigReader& reader, ConfigReader::Keys keys, std::string_view otherwise) {
  const auto text = reader.find_text(keys);
  return kActivationNames.parse(text ? std::string_view(*text) : otherwise, reader.where() + ": activation",
                                ErrorKind::unsupported);
}

void map_norm(const std::string& name, int hidden, const NormWeights& target, bool bias,
              std::vector<TensorMapping>& out) {
  out.push_back({name + ".weight", {hidden}, target.weight});
  if (bias) out.push_back({name + ".bias", {hidden}, target.bias});
}

void map_linear(const LinearSource& source, const LinearWeights& target, std::vector<TensorMapping>& out) {
  const bool transposed = source.arrangement == Arrangement::transposed;
  const Shape stored = transposed ? Shape{source.columns, source.rows} : Shape{source.rows, source.columns};
  out.push_back({source.name + ".weight", stored, target.weight, source.first_row, source.arrangement});
  if (!source.bias) return;
  out.push_back({source.name + ".bias",
                 {source.rows},
                 target.bias,
                 source.first_row,
                 transposed ? Arrangement::as_is : source.arrangement});
}

}  // namespace attn
