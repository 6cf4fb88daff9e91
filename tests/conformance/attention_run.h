// One attention call of a test: its tensors on a device between poison, run as often as wanted, its results
// on the host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/backend/platform.h"
#include "tests/conformance/attention_data.h"

namespace attn::conformance {

using Failures = std::vector<std::string>;  // a line each

// `bytes` of NaN (in f32, f16 and bf16) on the device.
void poison(Device& device, void* memory, std::size_t bytes);

// Device memory of exactly `bytes` between two guards, all poisoned.
class Guarded {
 public:
  Guarded(Device& device, std::size_t bytes);
  void* data() const;
  bool guards_whole() const;

 private:
  Device& device_;
  std::size_t bytes_;
  Buffer buffer_;
};

// Host numbers in a device buffer of `dtype`, with a copy to see that nobody changes them.
class Uploaded {
 public:
  Uploaded(Device& device, const std::vector<float>& numbers, DType dtype);
  void* data() const { return buffer_.data(); }
  bool unchanged() const;

 private:
  Device& device_;
  std::vector<char> bits_;
  Buffer buffer_;
};

struct AttentionResult {
  std::vector<float> out;  // the whole buffer of out_placement(), guards included
  std::vector<float> lse;  // [batch, q_heads, q_len]
  Failures failures;       // written outside, an input changed
};

// One case ready to run on a backend, as often as wanted; `inputs` must outlive it.
class AttentionRun {
 public:
  AttentionRun(Platform& platform, AttentionBackend& backend, const Case& test, const Inputs& inputs,
               DType dtype);

  const std::string& where() const { return where_; }
  const AttentionProblem& problem() const { return problem_; }

  // Scratch and outputs poisoned before.
  AttentionResult run();

  // Gives the device `count` calls in a row that share their scratch, and says which was the first whose bits
  // are not those of call 0; -1: none. A NaN among the results counts as call 0.
  int first_other_bits(int count);

 private:
  AttentionTensors tensors(void* out, void* lse);

  Platform& platform_;
  AttentionBackend& backend_;
  AttentionProblem problem_;
  DType dtype_;
  const Inputs& inputs_;
  Uploaded q_, k_, v_;
  std::string where_;
};

// NaN is never within a tolerance; infinities must be equal.
bool within(double value, double expected, double tolerance);

// Out and lse within the tolerances, and nothing written beside the rows of the output: at most one line.
void compare(const Case& test, const AttentionResult& result, const Expected& expected,
             const std::string& where, Failures& failures);

// causal, scale 1 / sqrt(head_dim).
AttentionProblem sized(int batch, int q_len, int kv_len, int q_heads, int kv_heads, int head_dim);

// The type that a kernel keeps scores in, which its name says where it is not f32.
DType kept_scores(const AttentionBackend& backend, AttentionProblem problem, DType dtype);

// Those that the backend takes.
std::vector<DType> dtypes_of(const AttentionBackend& backend, AttentionProblem problem);

void append(Failures& all, const Failures& more);

}  // namespace attn::conformance
