// The measuring of a case.
#include "apps/attnbench/model_bench.h"

#include <algorithm>
#include <cmath>

#include "apps/interrupt.h"
#include "lib/measure/schedule.h"
#include "lib/measure/statistics.h"

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
  result.memory.predicted = predicted;
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

// Times the prompt both ways, in turns, and keeps the faster.
PrefillChoice choose_prefill(Transformer& transformer, AttentionBackend& attention,
                             const BenchCase& bench_case, const BenchOptions& options) {
  constexpr int kRounds = 4;  // the first is thrown away
  Generator stream(transformer, attention, bench_case.prompt.ids, 1, options.sampling, PrefillLaunch::stream);
  Generator graph(transformer, attention, bench_case.prompt.ids, 1, options.sampling, PrefillLaunch::graph);
  std::vector<double> stream_ms;
  std::vector<double> graph_ms;
  for (int round = 0; round < kRounds; ++round) {
    const double by_stream = stream.run().token_ms.front();
    const double by_graph = graph.run().token_ms.front();
    if (round == 0) continue;
    stream_ms.push_back(by_stream);
    graph_ms.push_back(by_graph);
  }
  PrefillChoice choice{PrefillLaunch::stream, *median(stream_ms), *median(graph_ms)};
  if (choice.graph_ms < choice.stream_ms) choice.launch = PrefillLaunch::graph;
  return choice;
}

void set_failure(ModeResult& result, const Error& error, const char* when = "") {
  result.failure = std::string(when) + error.what();
  result.failure_kind = error.kind();
  const auto* out_of_memory = dynamic_cast<const OutOfMemory*>(&error);
  if (out_of_memory != nullptr) result.refused = out_of_memory->request;
}

// Times the modes in turns. When it throws, `current` is the mode whose turn it was, or null where the memory
// that all share was not to be had.
void time_in_turns(Platform& platform, const Model& model, const BenchCase& bench_case,
                   const BenchOptions& options, SensorLog* sensors, const std::vector<ModeResult*>& modes,
                   ModeResult*& current, bool& stopped, const std::function<void(const std::string&)>& step) {
  // One set of buffers serves all modes, so they differ in nothing but the attention.
  current = nullptr;
  Transformer transformer(platform, model, bench_case.shape());
  for (ModeResult* one : modes) {
    current = one;
    AttentionBackend& attention = platform.backend(one->mode);
    for (const Reservation& call :
         generation_calls(attention, bench_case.prompt_tokens(), bench_case.new_tokens))
      transformer.reserve(attention, call);
  }
  std::vector<std::unique_ptr<Generator>> generators;
  for (ModeResult* one : modes) {
    current = one;
    AttentionBackend& attention = platform.backend(one->mode);
    if (platform.device->records())
      one->prefill = choose_prefill(transformer, attention, bench_case, options);
    generators.push_back(std::make_unique<Generator>(
        transformer, attention, bench_case.prompt.ids, bench_case.new_tokens, options.sampling,
        one->prefill ? one->prefill->launch : PrefillLaunch::stream));
  }
  for (const ScheduledRun& run : interleave(static_cast<int>(modes.size()), options.warmup, options.reps)) {
    if (run.kind == RunKind::cold) continue;  // done before, each mode alone
    if (interrupted()) {
      stopped = true;
      return;
    }
    ModeResult& one = *modes[static_cast<std::size_t>(run.mode)];
    current = &one;
    const bool timed = run.kind == RunKind::timed;
    step(fmt::format("{} {} {}", one.mode, timed ? "run" : "warm-up", run.index + 1));
    if (timed && sensors != nullptr) sensors->begin();
    Generation generation = generators[static_cast<std::size_t>(run.mode)]->run();
    if (!timed) continue;
    if (sensors != nullptr) one.windows.push_back(sensors->end());
    one.token_ms.push_back(std::move(generation.token_ms));
  }
}

}  // namespace

int runs_of_case(const BenchOptions& options) {
  return static_cast<int>(options.modes.size()) * (1 + options.warmup + options.reps);
}

CaseResult failed_case(const BenchOptions& options, const Error& error) {
  CaseResult result;
  for (const std::string& mode : options.modes) {
    ModeResult& one = result.modes.emplace_back();
    one.mode = mode;
    set_failure(one, error);
  }
  return result;
}

CaseResult measure_case(Platform& platform, const Model& model, const BenchCase& bench_case,
                        const BenchOptions& options, SensorLog* sensors,
                        const std::function<void(const std::string&)>& step) {
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
      set_failure(one, error);
    }
  }

  while (!result.interrupted) {
    std::vector<ModeResult*> able;
    for (ModeResult& one : result.modes) {
      if (one.ok()) able.push_back(&one);
    }
    if (able.empty()) break;
    ModeResult* current = nullptr;
    try {
      time_in_turns(platform, model, bench_case, options, sensors, able, current, result.interrupted, step);
      break;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      if (sensors != nullptr) sensors->end();
      for (ModeResult* one : able) {
        one->token_ms.clear();
        one->windows.clear();
        if (current == nullptr || one == current)
          set_failure(*one, error, "it ran alone, but not in turns with the others: ");
      }
    }
  }
  return result;
}

}  // namespace attn
