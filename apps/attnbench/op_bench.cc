// Measuring attention alone.
#include "apps/attnbench/op_bench.h"

#include <algorithm>
#include <cmath>

#include "apps/interrupt.h"
#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/measure/schedule.h"
#include "lib/tensor/convert.h"

namespace attn {
namespace {

// Queries compared in each of the blocks at the beginning, the middle and the end.
constexpr int kComparedRows = 32;

struct OpMemory {
  Tensor q, k, v, out, reference;
  Buffer scores, workspace;
};

Tensor random_tensor(Device& device, const AttentionProblem& problem, int tokens, int heads,
                     std::uint64_t seed, std::uint64_t stream) {
  const Shape shape{problem.batch, tokens, heads, problem.head_dim};
  Tensor tensor = device.allocate_tensor(problem.dtype, shape, MemoryUse::activations);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(seed, stream, i);
  std::vector<char> bytes(tensor.view.bytes());
  convert_elements(values.data(), DType::f32, bytes.data(), problem.dtype, values.size());
  device.upload(tensor.view.data, bytes.data(), bytes.size());
  return tensor;
}

// Keys head-major, as the cache of a model stores them.
TensorView head_major(const Tensor& tensor) {
  const TensorView& dense = tensor.view;
  TensorView view = dense;
  view.strides = {dense.stride(0), dense.extent(3), dense.extent(1) * dense.extent(3), 1};
  return view;
}

std::vector<float> download_floats(Device& device, const TensorView& view) {
  std::vector<char> bytes(view.bytes());
  device.download(bytes.data(), view.data, bytes.size());
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  convert_elements(bytes.data(), view.dtype, values.data(), DType::f32, values.size());
  return values;
}

void compare(const std::vector<float>& ours, const std::vector<float>& reference, OpError& error,
             double& squares, double& reference_squares) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!std::isfinite(ours[i])) error.finite = false;
    const double difference = static_cast<double>(ours[i]) - static_cast<double>(reference[i]);
    error.max_abs = std::max(error.max_abs, std::abs(difference));
    squares += difference * difference;
    reference_squares += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
}

AttentionTensors tensors_of(const OpMemory& memory) {
  return {memory.q.view, head_major(memory.k), head_major(memory.v), memory.out.view, {}};
}

// Blocks of query rows against the reference; by the causal rule, queries [begin, end) of the whole problem
// are all the queries of a problem whose keys end where the last of them looks.
OpError error_of(Platform& platform, const AttentionProblem& problem, OpMemory& memory) {
  Device& device = *platform.device;
  AttentionBackend& reference = platform.backend("reference");
  OpError error;
  double squares = 0;
  double reference_squares = 0;
  const int rows = std::min(problem.q_len, kComparedRows);
  int done = 0;
  for (const int wanted : {0, (problem.q_len - rows) / 2, problem.q_len - rows}) {
    const int begin = std::max(wanted, done);
    const int end = std::min(wanted + rows, problem.q_len);
    if (begin >= end) continue;
    done = end;
    AttentionProblem part = problem;
    part.q_len = end - begin;
    if (problem.causal) part.kv_len = end + problem.kv_len - problem.q_len;
    AttentionTensors tensors = tensors_of(memory);
    tensors.q = tensors.q.slice(1, begin, part.q_len);
    const TensorView ours = tensors.out.slice(1, begin, part.q_len);
    tensors.out = memory.reference.view.slice(1, 0, part.q_len);
    if (part.kv_len >= 1) {
      tensors.k = tensors.k.slice(1, 0, part.kv_len);
      tensors.v = tensors.v.slice(1, 0, part.kv_len);
      const Buffer workspace = device.allocate(reference.scratch(part).workspace_bytes, MemoryUse::workspace);
      reference.forward(part, tensors, nullptr, workspace.data());
    } else {
      device.fill_zero(memory.reference.buffer.data(), memory.reference.buffer.bytes());
    }
    for (int batch = 0; batch < problem.batch; ++batch) {
      compare(download_floats(device, ours.slice(0, batch, 1)),
              download_floats(device, tensors.out.slice(0, batch, 1)), error, squares, reference_squares);
    }
    error.rows += static_cast<std::int64_t>(part.q_len) * problem.batch * problem.q_heads;
  }
  error.relative = reference_squares > 0 ? std::sqrt(squares / reference_squares) : std::sqrt(squares);
  return error;
}

}  // namespace

std::vector<AttentionProblem> op_problems(const OpOptions& options, DType dtype) {
  std::vector<AttentionProblem> problems;
  const std::vector<int> same{0};  // stands for "as the queries'"
  for (const int batch : options.batch)
    for (const int q_heads : options.q_heads)
      for (const int kv_heads : options.kv_heads.empty() ? same : options.kv_heads)
        for (const int head_dim : options.head_dim)
          for (const int q_len : options.q_len)
            for (const int kv_len : options.kv_len.empty() ? same : options.kv_len) {
              AttentionProblem problem;
              problem.batch = batch;
              problem.q_len = q_len;
              problem.kv_len = options.kv_len.empty() ? q_len : kv_len;
              problem.q_heads = q_heads;
              problem.kv_heads = options.kv_heads.empty() ? q_heads : kv_heads;
              problem.head_dim = head_dim;
              problem.dtype = dtype;
              problem.causal = options.causal;
              validate(problem);
              problem.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
              problems.push_back(problem);
            }
  return problems;
}

std::vector<OpModeResult> measure_op(Platform& platform, const AttentionProblem& problem,
                                     const OpOptions& options) {
  Device& device = *platform.device;
  std::vector<OpModeResult> results;
  for (const std::string& mode : options.modes) results.emplace_back().mode = mode;
  OpMemory memory;
  memory.q = random_tensor(device, problem, problem.q_len, problem.q_heads, options.seed, 0);
  memory.k = random_tensor(device, problem, problem.kv_len, problem.kv_heads, options.seed, 1);
  memory.v = random_tensor(device, problem, problem.kv_len, problem.kv_heads, options.seed, 2);
  memory.out = device.allocate_tensor(problem.dtype, memory.q.view.shape, MemoryUse::activations);
  memory.reference = device.allocate_tensor(
      problem.dtype,
      {problem.batch, std::min(problem.q_len, kComparedRows), problem.q_heads, problem.head_dim},
      MemoryUse::activations);
  // Every element of an output must be written by the kernel: what was there before is no number.
  const std::vector<unsigned char> poison(memory.out.buffer.bytes(), 0xff);

  std::vector<OpModeResult*> able;
  for (OpModeResult& result : results) {
    AttentionBackend& backend = platform.backend(result.mode);
    if (const auto reason = backend.why_not(problem)) {
      result.failure = *reason;
      result.failure_kind = ErrorKind::unsupported;
      continue;
    }
    try {
      result.kernel = backend.kernel_for(problem);
      const AttentionScratch need = backend.scratch(problem);
      result.scores_bytes = need.scores_bytes;
      result.workspace_bytes = need.workspace_bytes;
      if (need.scores_bytes > memory.scores.bytes())
        memory.scores = device.allocate(need.scores_bytes, MemoryUse::scores);
      if (need.workspace_bytes > memory.workspace.bytes())
        memory.workspace = device.allocate(need.workspace_bytes, MemoryUse::workspace);
      device.upload(memory.out.view.data, poison.data(), poison.size());
      backend.forward(problem, tensors_of(memory), memory.scores.data(), memory.workspace.data());
      result.error = error_of(platform, problem, memory);
      able.push_back(&result);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      result.failure = error.what();
      result.failure_kind = error.kind();
    }
  }
  if (able.empty()) return results;

  const auto stopwatch = device.make_stopwatch();
  for (const ScheduledRun& run : interleave(static_cast<int>(able.size()), options.warmup, options.reps)) {
    if (interrupted()) return results;
    OpModeResult& result = *able[static_cast<std::size_t>(run.mode)];
    device.synchronize();
    stopwatch->start();
    platform.backend(result.mode)
        .forward(problem, tensors_of(memory), memory.scores.data(), memory.workspace.data());
    stopwatch->mark();
    const double ms = stopwatch->milliseconds().front();
    if (run.kind == RunKind::timed) result.time_ms.push_back(ms);
  }
  return results;
}

}  // namespace attn
