// What sets a family of models apart: how its config.json reads, and which tensor of a checkpoint is which
// weight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/config.h"
#include "lib/model/config_reader.h"
#include "lib/model/weights.h"

namespace attn {

// How a tensor of a checkpoint becomes rows of ours.
// as_is: the same rows. transposed: ours [out, in] from a stored [in, out] (GPT-2's Conv1D).
// by_head: ours queries | keys | values, each [head, dim], from stored rows [head, (query, key, value), dim]
// (NeoX).
enum class Arrangement : unsigned char { as_is, transposed, by_head };

struct TensorMapping {
  std::string name;            // in the checkpoint, without the family's prefix
  Shape shape;                 // in the checkpoint
  TensorView target;           // empty when the weights have no memory (inspection)
  std::int64_t first_row = 0;  // of the target, where these rows go
  Arrangement arrangement = Arrangement::as_is;
};

struct FamilyTraits {
  Family family;
  std::string_view architecture;  // begins the class names of `architectures`, for files without model_type
  std::string_view prefix;        // of all tensors but the head; whole files may lack it
  std::string_view layer_stem;    // "h.": tensors of layers are h.0.x, h.1.x, ...
  std::string_view embedding;     // name of the token embedding, without prefix
  std::string_view head;          // name of the output projection, never with prefix

  void (*read_config)(const ConfigReader& reader, ModelConfig& config);
  // Everything but token embedding and head. `weights.layers` has `config.layers` entries.
  void (*map_tensors)(const ModelConfig& config, const ModelWeights& weights,
                      std::vector<TensorMapping>& out);
  // Buffers that old checkpoints carry and that hold nothing learned; `name` is without prefix.
  bool (*is_buffer)(std::string_view name);
};

const FamilyTraits& family_traits(Family family);
const std::vector<Family>& families();

extern const FamilyTraits kGpt2Traits;
extern const FamilyTraits kGptNeoxTraits;
extern const FamilyTraits kLlamaTraits;

// What the families' readers share. Throws Error{unsupported} naming an activation that is not implemented.
Activation read_activation(const ConfigReader& reader, ConfigReader::Keys keys, std::string_view otherwise);

// Appends weight and, where the target has one or `bias` says so, bias of one norm or linear layer.
void map_norm(const std::string& name, int hidden, const NormWeights& target, bool bias,
              std::vector<TensorMapping>& out);
struct LinearSource {
  std::string name;
  std::int64_t rows = 0, columns = 0;  // [out, in] as we hold it
  bool bias = true;
  std::int64_t first_row = 0;
  Arrangement arrangement = Arrangement::as_is;
};
void map_linear(const LinearSource& source, const LinearWeights& target, std::vector<TensorMapping>& out);

}  // namespace attn
