// Names of a checkpoint against names of a family.
#include "lib/model/weight_plan.h"

#include <algorithm>
#include <set>

namespace attn {

namespace {

// transformers 5 saves every family's head under this name.
constexpr std::string_view kSharedHeadName = "lm_head.weight";

std::string_view without_prefix(std::string_view name, const FamilyTraits& traits) {
  return name.starts_with(traits.prefix) ? name.substr(traits.prefix.size()) : name;
}

bool same_shape(const std::vector<std::int64_t>& stored, const Shape& expected) {
  if (static_cast<int>(stored.size()) != expected.rank()) return false;
  for (int axis = 0; axis < expected.rank(); ++axis) {
    if (stored[static_cast<std::size_t>(axis)] != expected[axis]) return false;
  }
  return true;
}

// With the family's prefix, or, in files saved from the model without its head, without it.
const StoredTensor* find_body(const Checkpoint& checkpoint, const FamilyTraits& traits,
                              std::string_view name) {
  if (const StoredTensor* stored = checkpoint.find(std::string(traits.prefix) + std::string(name)))
    return stored;
  return checkpoint.find(name);
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const FamilyTraits& traits)
      : checkpoint_(checkpoint), traits_(traits) {}

  void take(const StoredTensor* stored, TensorMapping mapping, const std::string& full_name) {
    if (stored == nullptr) {
      plan_.missing.push_back({full_name, mapping.shape});
      return;
    }
    taken_.insert(stored->name);
    if (!same_shape(stored->shape, mapping.shape)) {
      plan_.mismatched.push_back({stored, mapping.shape});
    } else {
      plan_.used.push_back({stored, std::move(mapping)});
    }
  }

  void take_body(TensorMapping mapping) {
    const StoredTensor* stored = find_body(checkpoint_, traits_, mapping.name);
    const std::string full_name = std::string(traits_.prefix) + mapping.name;
    take(stored, std::move(mapping), full_name);
  }

  void take_embedding_and_head(const ModelConfig& config, const ModelWeights& weights) {
    const Shape shape{config.vocab, config.hidden};
    const std::string embedding = std::string(traits_.prefix) + std::string(traits_.embedding);
    const StoredTensor* embedding_stored = find_body(checkpoint_, traits_, traits_.embedding);
    const StoredTensor* head_stored = checkpoint_.find(std::string(traits_.head));
    if (head_stored == nullptr) head_stored = checkpoint_.find(kSharedHeadName);
    const std::string head = head_stored != nullptr ? head_stored->name : std::string(traits_.head);
    const TensorMapping to_embedding{std::string(traits_.embedding), shape, weights.embedding.tokens};
    if (!config.tied_embeddings) {
      take(embedding_stored, to_embedding, embedding);
      take(head_stored, {head, shape, weights.head.weight}, head);
    } else if (embedding_stored == nullptr && head_stored != nullptr) {
      take(head_stored, to_embedding, head);  // writers keep one of two shared tensors: here the other one
      plan_.aliased.push_back(embedding + " is " + head + " (tied)");
    } else {
      take(embedding_stored, to_embedding, embedding);
      std::string sentence = head + " is " + embedding + " (tied)";
      if (head_stored != nullptr) {
        taken_.insert(head);
        sentence += "; the file's own " + head + " is not read";
      }
      plan_.aliased.push_back(sentence);
    }
  }

  WeightPlan finish() {
    for (const StoredTensor& stored : checkpoint_.tensors()) {
      if (taken_.contains(stored.name)) continue;
      const bool buffer = traits_.is_buffer(without_prefix(stored.name, traits_));
      (buffer ? plan_.buffers : plan_.unused).push_back(&stored);
    }
    return std::move(plan_);
  }

 private:
  const Checkpoint& checkpoint_;
  const FamilyTraits& traits_;
  WeightPlan plan_;
  std::set<std::string> taken_;
};

[[noreturn]] void fail_missing(const WeightPlan& plan, const ModelConfig& config,
                               const Checkpoint& checkpoint) {
  const std::string dir = checkpoint.dir().string();
  const FamilyTraits& traits = family_traits(config.family);
  for (const Family other : families()) {
    const FamilyTraits& theirs = family_traits(other);
    const bool ours = find_body(checkpoint, traits, traits.embedding) != nullptr;
    if (!ours && other != config.family && find_body(checkpoint, theirs, theirs.embedding) != nullptr) {
      fail(ErrorKind::bad_input,
           "{}: config.json says model_type {}, but the tensors are named like those of {}", dir,
           kFamilyNames.name(config.family), kFamilyNames.name(other));
    }
  }
  const MissingTensor& first = plan.missing.front();
  if (checkpoint.is_outside_index(first.name)) {
    fail(ErrorKind::bad_input, "{}: tensor '{}' is in a shard, but missing from model.safetensors.index.json",
         dir, first.name);
  }
  if (first.name == traits.head) {
    fail(ErrorKind::bad_input,
         "{}: tensor '{}' is missing; if the head shares the embedding, config.json must say "
         "tie_word_embeddings true",
         dir, first.name);
  }
  fail(ErrorKind::bad_input,
       "{}: tensor '{}' of shape {} is missing ({} missing in all; --inspect lists them)", dir, first.name,
       first.shape.text(), plan.missing.size());
}

[[noreturn]] void fail_mismatched(const MismatchedTensor& tensor, const ModelConfig& config,
                                  const Checkpoint& checkpoint) {
  const FamilyTraits& traits = family_traits(config.family);
  const std::string& name = tensor.stored->name;
  const bool vocabulary =
      name == traits.head || name == kSharedHeadName || without_prefix(name, traits) == traits.embedding;
  if (vocabulary && tensor.stored->shape.size() == 2 && tensor.stored->shape[1] == config.hidden) {
    fail(ErrorKind::bad_input, "{}: vocab_size in config.json is {}, but tensor '{}' has {} rows",
         checkpoint.dir().string(), config.vocab, name, tensor.stored->shape[0]);
  }
  fail(ErrorKind::bad_input, "{}: tensor '{}' has shape {}, but config.json asks for {}",
       checkpoint.dir().string(), name, tensor.stored->shape_text(), tensor.expected.text());
}

}  // namespace

WeightPlan plan_weights(const ModelConfig& config, const Checkpoint& checkpoint,
                        const ModelWeights& weights) {
  const FamilyTraits& traits = family_traits(config.family);
  std::vector<TensorMapping> mappings;
  traits.map_tensors(config, weights, mappings);
  Planner planner(checkpoint, traits);
  planner.take_embedding_and_head(config, weights);
  for (TensorMapping& mapping : mappings) planner.take_body(std::move(mapping));
  return planner.finish();
}

void check_plan(const WeightPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint) {
  const FamilyTraits& traits = family_traits(config.family);
  if (!plan.missing.empty()) fail_missing(plan, config, checkpoint);
  if (!plan.mismatched.empty()) fail_mismatched(plan.mismatched.front(), config, checkpoint);
  for (const PlannedTensor& tensor : plan.used) {
    if (tensor.stored->element_type()) continue;
    fail(ErrorKind::bad_input, "{}: tensor '{}' has dtype {}; weights are read from F32, F16 and BF16",
         checkpoint.dir().string(), tensor.stored->name, tensor.stored->dtype);
  }
  for (const StoredTensor* stored : plan.unused) {
    if (!without_prefix(stored->name, traits).starts_with(traits.layer_stem)) continue;
    fail(ErrorKind::bad_input,
         "{}: tensor '{}' has no place in the model that config.json describes ({} layers; --inspect lists "
         "them)",
         checkpoint.dir().string(), stored->name, config.layers);
  }
}

}  // namespace attn
