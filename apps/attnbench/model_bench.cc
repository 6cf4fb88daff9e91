// The measuring of a case.
#include "apps/attnbench/model_bench.h"

#include <algorithm>
#include <cmath>

#include "apps/interrupt.h"
#include "lib/measure/schedule.h"

namespace attn {
namespace {

bool last_logits_finite(const Transformer& transformer) {
  const TensorView& room = transformer.logits_room();
  std::vector<float> values(static_cast<std::size_t>(room.shape.elements()));
  transformer.platform().device->download(values.data(), room.data, room.bytes());
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// Nothing but this mode's memory is live beside the weights, so the peak is its own.
void run_cold(Platform& platform, const Model& model, const BenchCase& bench_case,
              const BenchOptions& options, ModeResult& result) {
  AttentionBackend& attention = platform.backend(result.mode);
  const std::vector<Reservation> calls =
      generation_calls(attention, bench_case.prompt_tokens(), bench_case.new_tokens);
  const BytesByUse predicted =
      predict_memory(model.config, model.weights.dtype, bench_case.shape(), attention, calls);
  platform.device->reset_peaks();
  Transformer transformer(platform, model, bench_case.shape());
  for (const Reservation& call : calls) transformer.reserve(attention, call);
  result.prefill_kernel = transformer.kernel_for(attention, calls.front());
  if (calls.size() > 1) result.decode_kernel = transformer.kernel_for(attention, calls.back());
  result.cold =
      generate(transformer, attention, bench_case.prompt.ids, bench_case.new_tokens, options.sampling);
  result.memory = read_memory(*platform.device, predicted);
  result.finite = last_logits_finite(transformer);
}

}  // namespace

int runs_of_case(const BenchOptions& options) {
  return static_cast<int>(options.modes.size()) * (1 + options.warmup + options.reps);
}

CaseResult measure_case(Platform& platform, const Model& model, const BenchCase& bench_case,
                        const BenchOptions& options, const std::function<void(const std::string&)>& step) {
  CaseResult result;
  for (const std::string& mode : options.modes) {
    ModeResult& one = result.modes.emplace_back();
    one.mode = mode;
    if (interrupted()) {
      result.interrupted = true;
      one.failure = "interrupted before this mode ran";
      continue;
    }
    step(mode + " cold");
    try {
      run_cold(platform, model, bench_case, options, one);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory && error.kind() != ErrorKind::unsupported) throw;
      one.failure = error.what();
      one.failure_kind = error.kind();
    }
  }

  std::vector<ModeResult*> able;
  for (ModeResult& one : result.modes) {
    if (one.ok()) able.push_back(&one);
  }
  if (able.empty() || result.interrupted) return result;

  // One set of buffers serves all modes, so they differ in nothing but the attention.
  Transformer transformer(platform, model, bench_case.shape());
  for (const ModeResult* one : able) {
    AttentionBackend& attention = platform.backend(one->mode);
    for (const Reservation& call :
         generation_calls(attention, bench_case.prompt_tokens(), bench_case.new_tokens))
      transformer.reserve(attention, call);
  }
  for (const ScheduledRun& run : interleave(static_cast<int>(able.size()), options.warmup, options.reps)) {
    if (run.kind == RunKind::cold) continue;  // done above, each mode alone
    if (interrupted()) {
      result.interrupted = true;
      return result;
    }
    ModeResult& one = *able[static_cast<std::size_t>(run.mode)];
    step(fmt::format("{} {} {}", one.mode, run.kind == RunKind::warmup ? "warm-up" : "run", run.index + 1));
    Generation generation = generate(transformer, platform.backend(one.mode), bench_case.prompt.ids,
                                     bench_case.new_tokens, options.sampling);
    if (run.kind == RunKind::timed) one.token_ms.push_back(std::move(generation.token_ms));
  }
  return result;
}

}  // namespace attn
