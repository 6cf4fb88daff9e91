// AttentionBackend: one way to compute attention on one device; the only thing that differs between modes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/backend/attention_problem.h"
#include "lib/backend/ops.h"
#include "lib/tensor/tensor.h"

namespace attn {

// One compiled kernel of a backend: what --list-kernels, the record and the tests read.
struct KernelRow {
  std::string name;       // as a record shows it
  std::string head_dims;  // "any" or a list
  std::string dtypes;
  std::string what;  // one line
};

// What a call needs beside its tensors.
struct AttentionScratch {
  std::size_t scores_bytes = 0;  // the materialised score matrix; 0 in mode flash
  std::size_t workspace_bytes = 0;
};

// The work of Ops::rope_and_append, for a backend that does it on the way.
struct AttentionAppend {
  TensorView k,
      v;  // [batch, q_len, kv_heads, head_dim]: keys not yet turned, and values, of the queries' tokens
  RotaryTable rotary;
};

// Axes [batch, token, head, dim]; k and v have kv_len tokens. lse is [batch, q_heads, q_len] f32, or empty.
struct AttentionTensors {
  TensorView q, k, v, out, lse;
  // Where given, on the device: the keys are the first *past_len + q_len, and the problem's kv_len is only
  // the most there may be. So one recorded call serves a growing cache (Device::capture).
  const std::int32_t* past_len = nullptr;
  // Where given (only if appends()): q is not yet turned, and the last q_len keys are not yet in k and v,
  // which forward() writes.
  const AttentionAppend* append = nullptr;
};

// Calls of one object run one after the other. Scratch of at least scratch(problem) is given by the caller
// and holds nothing between calls.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  virtual std::string_view name() const = 0;  // "reference", "baseline", "flash"
  virtual std::vector<KernelRow> kernels() const = 0;
  // Nothing: it can. Else the reason in words; there is never a fallback to another backend.
  virtual std::optional<std::string> why_not(const AttentionProblem& problem) const = 0;
  // The name of the kernel row that forward() would run.
  virtual std::string kernel_for(const AttentionProblem& problem) const = 0;
  virtual AttentionScratch scratch(const AttentionProblem& problem) const = 0;
  // For a call that is recorded when the cache holds kv_len keys and replayed while it grows: the kv_len to
  // record it with, and so the last one that it serves. Keys past the length must then hold finite numbers.
  virtual int recorded_keys(int /*kv_len*/, int capacity) const { return capacity; }
  // Whether forward() takes AttentionTensors::append (and past_len, which it needs).
  virtual bool appends(const AttentionProblem& /*problem*/) const { return false; }
  virtual void forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
                       void* workspace) = 0;
};

}  // namespace attn
