// WeightPlan: which tensor of a checkpoint becomes which weight, and what does not fit.
#pragma once

#include <string>
#include <vector>

#include "lib/model/checkpoint.h"
#include "lib/model/family.h"

namespace attn {

struct PlannedTensor {
  const StoredTensor* stored = nullptr;
  TensorMapping mapping;
};

struct MissingTensor {
  std::string name;
  Shape shape;
};

struct MismatchedTensor {
  const StoredTensor* stored = nullptr;
  Shape expected;
};

struct WeightPlan {
  std::vector<PlannedTensor> used;
  std::vector<MissingTensor> missing;
  std::vector<MismatchedTensor> mismatched;  // in shape
  std::vector<const StoredTensor*> buffers;  // masks and frequencies that old files carry: not needed
  std::vector<const StoredTensor*> unused;   // nothing in this model has that name
  std::vector<std::string> aliased;          // sentences: which weight shares which tensor
};

// Never throws for a checkpoint that does not fit: the plan says what does not.
WeightPlan plan_weights(const ModelConfig& config, const Checkpoint& checkpoint, const ModelWeights& weights);

// Throws Error{bad_input} for the first thing that keeps the plan from being carried out: tensors of another
// family, a missing tensor, a wrong shape, elements that are not F32, F16 or BF16, and tensors of layers that
// the config does not know (ignoring those would give a model that runs and is wrong).
void check_plan(const WeightPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace attn
