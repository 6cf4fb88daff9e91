// Measuring attention alone.
#include "apps/attnbench/op_bench.h"

#include <algorithm>
#include <cmath>

#include "apps/interrupt.h"
#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/measure/ceiling.h"
#include "lib/measure/schedule.h"
#include "lib/tensor/convert.h"

namespace attn {
namespace {

// Queries compared in each of the blocks at the beginning, the middle and the end.
constexpr int kComparedRows = 32;

// A problem whose keys stay in the cache from one call to the next measures the cache: several copies of its
// tensors, this many times the cache's size, are used in turn.
constexpr std::size_t kCachesOfCopies = 16;
constexpr std::size_t kMostHostCopies = std::size_t{512} << 20;  // bytes, on the CPU: filling takes time
constexpr double kLeastSampleMs = 1;  // shorter samples would time the launch of a kernel, not the kernel
constexpr int kMostCalls = 4096;

// Equal tensors, evenly apart.
struct Copies {
  Buffer buffer;
  TensorView first;
  std::size_t apart = 0;  // bytes
  TensorView at(int index) const {
    TensorView view = first;
    view.data = first.as<char>() + static_cast<std::size_t>(index) * apart;
    return view;
  }
};

struct OpMemory {
  Copies q, k, v, out;
  Tensor reference;
  Buffer scores, workspace;
  int copies = 1;
};

std::size_t rounded_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

Copies make_copies(Device& device, const AttentionProblem& problem, int tokens, int heads, int copies) {
  const Shape shape{problem.batch, tokens, heads, problem.head_dim};
  Copies out;
  out.apart = rounded_up(static_cast<std::size_t>(shape.elements()) * size_of(problem.dtype));
  out.buffer = device.allocate(out.apart * static_cast<std::size_t>(copies), MemoryUse::activations);
  out.first = TensorView(out.buffer.data(), problem.dtype, shape);
  return out;
}

Copies random_copies(Device& device, const AttentionProblem& problem, int tokens, int heads, int copies,
                     std::uint64_t seed, std::uint64_t stream) {
  // Numbers drawn on the host take longer than the measurement of a large problem: a prime number of them is
  // repeated, so that no two rows are alike by the period.
  constexpr std::int64_t kDrawn = 1000003;
  Copies out = make_copies(device, problem, tokens, heads, copies);
  std::vector<float> values(static_cast<std::size_t>(std::min(out.first.shape.elements(), kDrawn)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(seed, stream, i);
  std::vector<char> bytes(values.size() * size_of(problem.dtype));
  convert_elements(values.data(), DType::f32, bytes.data(), problem.dtype, values.size());
  fill_with_repeats(device, out.buffer.data(), out.buffer.bytes(), bytes.data(), bytes.size());
  return out;
}

OpMemory make_memory(Device& device, const AttentionProblem& problem, std::uint64_t seed, int copies) {
  OpMemory memory;
  memory.copies = copies;
  memory.q = random_copies(device, problem, problem.q_len, problem.q_heads, copies, seed, 0);
  memory.k = random_copies(device, problem, problem.kv_len, problem.kv_heads, copies, seed, 1);
  memory.v = random_copies(device, problem, problem.kv_len, problem.kv_heads, copies, seed, 2);
  memory.out = make_copies(device, problem, problem.q_len, problem.q_heads, copies);
  memory.reference = device.allocate_tensor(
      problem.dtype,
      {problem.batch, std::min(problem.q_len, kComparedRows), problem.q_heads, problem.head_dim},
      MemoryUse::activations);
  return memory;
}

// Copies that are wanted: more than one only where the memory limits.
int copies_of(const Device& device, const AttentionProblem& problem, const Ceilings& ceilings) {
  if (ceilings.cache_bytes == 0 || !memory_bound({model_flops(problem), least_bytes(problem)}, ceilings))
    return 1;
  const std::size_t wanted = kCachesOfCopies * ceilings.cache_bytes;
  if (device.host_memory() && wanted > kMostHostCopies) return 1;
  const double copies = std::ceil(static_cast<double>(wanted) / least_bytes(problem));
  return std::max(1, static_cast<int>(std::min(copies, 1e6)));
}

// Keys head-major, as the cache of a model stores them.
TensorView head_major(const TensorView& dense) {
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

AttentionTensors tensors_of(const OpMemory& memory, int copy = 0) {
  AttentionTensors tensors;
  tensors.q = memory.q.at(copy);
  tensors.k = head_major(memory.k.at(copy));
  tensors.v = head_major(memory.v.at(copy));
  tensors.out = memory.out.at(copy);
  return tensors;
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

namespace {

void set_failure(OpModeResult& result, const Error& error) {
  result.failure = error.what();
  result.failure_kind = error.kind();
  const auto* out_of_memory = dynamic_cast<const OutOfMemory*>(&error);
  if (out_of_memory != nullptr) result.refused = out_of_memory->request;
}

// One run of `backend` on poisoned output, against the reference; takes its scratch.
void try_mode(Platform& platform, const AttentionProblem& problem, OpMemory& memory, OpModeResult& result) {
  Device& device = *platform.device;
  AttentionBackend& backend = platform.backend(result.mode);
  result.kernel = backend.kernel_for(problem);
  const AttentionScratch need = backend.scratch(problem);
  result.scores_bytes = need.scores_bytes;
  result.workspace_bytes = need.workspace_bytes;
  if (need.scores_bytes > memory.scores.bytes())
    memory.scores = device.allocate(need.scores_bytes, MemoryUse::scores);
  if (need.workspace_bytes > memory.workspace.bytes())
    memory.workspace = device.allocate(need.workspace_bytes, MemoryUse::workspace);
  // Every element of an output must be written by the kernel: what was there before is no number.
  const std::vector<unsigned char> poison(memory.out.first.bytes(), 0xff);
  device.upload(memory.out.first.data, poison.data(), poison.size());
  backend.forward(problem, tensors_of(memory), memory.scores.data(), memory.workspace.data());
  result.error = error_of(platform, problem, memory);
}

// `calls` of the mode, back to back, each on the next copy.
double sample_ms(Platform& platform, const AttentionProblem& problem, OpMemory& memory,
                 const OpModeResult& mode, Stopwatch& stopwatch, int& next_copy) {
  AttentionBackend& backend = platform.backend(mode.mode);
  platform.device->synchronize();
  stopwatch.start();
  for (int call = 0; call < mode.calls; ++call) {
    backend.forward(problem, tensors_of(memory, next_copy), memory.scores.data(), memory.workspace.data());
    next_copy = (next_copy + 1) % memory.copies;
  }
  stopwatch.mark();
  return stopwatch.milliseconds().front();
}

}  // namespace

std::vector<OpModeResult> measure_op(Platform& platform, const AttentionProblem& problem,
                                     const OpOptions& options, const Ceilings& ceilings) {
  Device& device = *platform.device;
  std::vector<OpModeResult> results;
  for (const std::string& mode : options.modes) results.emplace_back().mode = mode;
  OpMemory memory;
  for (int copies = copies_of(device, problem, ceilings); memory.q.buffer.bytes() == 0; copies = 1) {
    try {
      memory = make_memory(device, problem, options.seed, copies);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      if (copies > 1) continue;  // the record says that there is one copy, and what that means
      for (OpModeResult& result : results) set_failure(result, error);
      return results;
    }
  }

  std::vector<OpModeResult*> able;
  for (OpModeResult& result : results) {
    result.copies = memory.copies;
    if (const auto reason = platform.backend(result.mode).why_not(problem)) {
      result.failure = *reason;
      result.failure_kind = ErrorKind::unsupported;
      continue;
    }
    try {
      try_mode(platform, problem, memory, result);
      able.push_back(&result);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      set_failure(result, error);
    }
  }
  if (able.empty()) return results;

  const auto stopwatch = device.make_stopwatch();
  int next_copy = 0;
  for (OpModeResult* result : able) {
    while (!interrupted()) {
      const double ms = sample_ms(platform, problem, memory, *result, *stopwatch, next_copy);
      if (ms >= kLeastSampleMs || result->calls == kMostCalls) break;
      const double wanted = ms > 0 ? 1.2 * kLeastSampleMs / ms * result->calls : kMostCalls;
      result->calls = std::clamp(static_cast<int>(std::min<double>(wanted, kMostCalls)),
                                 std::min(2 * result->calls, kMostCalls), kMostCalls);
    }
  }
  for (const ScheduledRun& run : interleave(static_cast<int>(able.size()), options.warmup, options.reps)) {
    if (interrupted()) return results;
    OpModeResult& result = *able[static_cast<std::size_t>(run.mode)];
    const double ms = sample_ms(platform, problem, memory, result, *stopwatch, next_copy) / result.calls;
    if (run.kind == RunKind::timed) result.time_ms.push_back(ms);
  }
  return results;
}

}  // namespace attn
