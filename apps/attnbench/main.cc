// attnbench: time to first token, time per token, throughput and memory of a model; `attnbench op`: attention
// alone.
#include <CLI/CLI.hpp>

#include "apps/attnbench/run.h"
#include "apps/guarded_main.h"
#include "apps/short_waits.h"

int main(int argc, char** argv) {
  attn::short_waits(argv);
  return attn::guarded_main("attnbench", [&] {
    attn::BenchOptions bench;
    attn::OpOptions op;
    CLI::App app("What an attention implementation does to a language model: TTFT, TPOT, throughput, memory");
    app.footer(attn::metric_help());
    attn::add_bench_options(app, bench);
    CLI::App* op_command =
        app.add_subcommand("op", "Attention alone over shapes: time, TFLOP/s, GB/s, error");
    attn::add_op_options(*op_command, op);
    if (const auto code = attn::parse_command_line(app, argc, argv)) return *code;
    bench.argv = op.argv = attn::arguments(argc, argv);
    return op_command->parsed() ? attn::run_op(op) : attn::run_bench(bench);
  });
}
