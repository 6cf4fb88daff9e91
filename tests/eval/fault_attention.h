// FaultAttention: a backend that may change each call of another one, to plant faults.
#pragma once

#include <functional>
#include <utility>

#include "lib/backend/attention.h"

namespace attn {

class FaultAttention : public AttentionBackend {
 public:
  // Calls `inner` itself, with a problem and tensors of its own making, or does not.
  using Call = std::function<void(AttentionBackend& inner, const AttentionProblem& problem,
                                  const AttentionTensors& tensors, void* scores, void* workspace)>;
  FaultAttention(AttentionBackend& inner, Call call) : inner_(inner), call_(std::move(call)) {}

  std::string_view name() const override { return inner_.name(); }
  std::vector<KernelRow> kernels() const override { return inner_.kernels(); }
  std::optional<std::string> why_not(const AttentionProblem& problem) const override {
    return inner_.why_not(problem);
  }
  std::string kernel_for(const AttentionProblem& problem) const override {
    return inner_.kernel_for(problem);
  }
  AttentionScratch scratch(const AttentionProblem& problem) const override { return inner_.scratch(problem); }
  void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
               void* workspace) override {
    call_(inner_, problem, tensors, scores, workspace);
  }

 private:
  AttentionBackend& inner_;
  Call call_;
};

}  // namespace attn
