#!/usr/bin/env python3
"""Measures attention alone by torch's scaled_dot_product_attention, as `attnbench op` measures its own.

Writes attnbench's result format, so that summarize can put the two side by side (--modes sdpa-flash,flash).
The product of all lists is measured, in turns of the modes. docs/peers.md says what each mode is. Needs torch.
"""

import argparse
import itertools
import statistics
import sys
import warnings

from hf_bench import DTYPES, device_environment, open_device, open_dtype, outcome_of
from op_problem import Problem, copies_for
from peer_records import (
    NONFINITE_EXIT_CODE,
    PeerError,
    Writer,
    add_list,
    add_series,
    check_modes,
    guarded_main,
    new_record,
    one_line,
    parse_lists,
)

MODE_NAMES = {
    "torch-eager": "matmul, scale, mask, softmax in float32, matmul: transformers' eager attention",
    "sdpa-flash": "SDPA, FlashAttention-2 only",
    "sdpa-cudnn": "SDPA, cuDNN only",
    "sdpa-efficient": "SDPA, the memory-efficient kernel only",
    "sdpa-math": "SDPA, math only",
}
DEFAULT_MODES = ["torch-eager", "sdpa-flash", "sdpa-cudnn"]
CPU_CACHE_BYTES = 64 << 20  # stands for the L2 of a GPU


def make_parser() -> argparse.ArgumentParser:
    modes = "modes:\n" + "\n".join(f"  {name:<15} {what}" for name, what in MODE_NAMES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=modes, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_list(parser, "--mode", metavar="MODE", type=str, default=DEFAULT_MODES, help="measured in turns")
    add_list(parser, "--batch", "--batch-sizes", metavar="N", help="sequences (default: 1)")
    parser.add_argument("--tokens", type=int, metavar="N", help="instead of --batch: batch = N / q_len")
    add_list(parser, "--q-heads", "--heads", metavar="N", help="query heads (default: 12)")
    add_list(parser, "--kv-heads", metavar="N", help="key and value heads (default: as the query heads)")
    add_list(parser, "--q-len", metavar="N", default=[512], help="queries a sequence; 1 is a decode step")
    add_list(parser, "--kv-len", metavar="N", help="keys a sequence (default: as the queries)")
    add_list(parser, "--head-dim", metavar="N", help="dimensions of a head (default: 64)")
    add_list(
        parser,
        "--dim-x-heads",
        metavar="DxH",
        type=str,
        help="instead of --head-dim and --q-heads: pairs, " "e.g. 64x32,128x16",
    )
    parser.add_argument(
        "--causal",
        default=True,
        action=argparse.BooleanOptionalAction,
        help="query i sees key j <= i + kv_len - q_len (default)",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, or auto (default: %(default)s)")
    parser.add_argument(
        "--dtype", default="auto", choices=["auto", *DTYPES], help="auto: f32 on the CPU, bf16 on a GPU"
    )
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="CPU threads; 0: torch's own choice"
    )
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="rounds thrown away (default: 1)")
    parser.add_argument(
        "--reps", type=int, default=5, metavar="N", help="timed rounds of each mode (default: 5)"
    )
    parser.add_argument(
        "--graph",
        default=True,
        action=argparse.BooleanOptionalAction,
        help="on a GPU, time calls from a CUDA graph, which the host does not slow down (default)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of queries, keys and values (default: 0)")
    parser.add_argument(
        "--out",
        default="results",
        help="folder (sdpa_bench.jsonl in it is appended to), FILE.jsonl "
        "(appended to) or FILE.json (default: results)",
    )
    return parser


def parse(arguments: list):
    parser = make_parser()
    options = parser.parse_args(arguments)
    parse_lists(parser, options)
    check_modes(parser, options.mode, MODE_NAMES)
    for name, least in (("warmup", 0), ("reps", 1), ("threads", 0), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}")
    if options.tokens is not None and options.batch:
        parser.error("--tokens gives the batch: leave out --batch")
    if options.dim_x_heads and (options.head_dim or options.q_heads):
        parser.error("--dim-x-heads gives both: leave out --head-dim and --q-heads")
    try:
        problems_of(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def problems_of(options) -> list:
    """The product of the lists. ValueError names what does not fit."""
    pairs = list(itertools.product(options.head_dim or [64], options.q_heads or [12]))
    if options.dim_x_heads:
        pairs = []
        for word in options.dim_x_heads:
            dim, _, heads = word.partition("x")
            if not dim.isdigit() or not heads.isdigit() or int(dim) < 1 or int(heads) < 1:
                raise ValueError(f"--dim-x-heads '{word}' is not of the form 64x32")
            pairs.append((int(dim), int(heads)))
    problems = []
    for (head_dim, q_heads), q_len in itertools.product(pairs, options.q_len):
        if options.tokens is not None and options.tokens < q_len:
            raise ValueError(f"--tokens {options.tokens} is less than --q-len {q_len}")
        batches = [options.tokens // q_len] if options.tokens is not None else options.batch or [1]
        for batch, kv_heads, kv_len in itertools.product(
            batches, options.kv_heads or [q_heads], options.kv_len or [q_len]
        ):
            if q_heads % kv_heads != 0:
                raise ValueError(f"kv_heads ({kv_heads}) must divide q_heads ({q_heads})")
            problems.append(Problem(batch, q_heads, kv_heads, head_dim, q_len, kv_len, options.causal))
    return problems


class OpSweep:
    def __init__(self, options, argv: list):
        import torch

        self.options, self.worst = options, 0
        self.device = open_device(options.device)
        self.dtype_name, self.dtype = open_dtype(options.dtype, self.device)
        if options.threads > 0:
            torch.set_num_threads(options.threads)
        on_gpu = self.device.type == "cuda"
        self.threads = 0 if on_gpu else torch.get_num_threads()
        self.cache_bytes = (
            torch.cuda.get_device_properties(self.device).L2_cache_size if on_gpu else CPU_CACHE_BYTES
        )
        self.writer = Writer(options.out, "sdpa_bench.jsonl")
        self.environment = device_environment(argv, self.device, self.threads)

    def run(self) -> int:
        import torch

        with torch.inference_mode():
            for problem in problems_of(self.options):
                for record in self.measure(problem):
                    self.writer.append(record)
                    self.print_line(problem, record)
                self.release()
        print(f"Saved {self.writer.path}")
        return self.worst

    def release(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()

    def new_record(self, problem: Problem, mode: str) -> dict:
        options, p = self.options, problem
        parameters = {
            "mode": mode,
            "device": str(self.device),
            "dtype": self.dtype_name,
            "batch": p.batch,
            "q_heads": p.q_heads,
            "kv_heads": p.kv_heads,
            "q_len": p.q_len,
            "kv_len": p.kv_len,
            "head_dim": p.head_dim,
            "causal": p.causal,
            "seed": options.seed,
            "threads": self.threads,
            "warmup": options.warmup,
            "reps": options.reps,
        }
        return new_record("attnbench op", parameters, self.environment)

    def measure(self, problem: Problem) -> list:
        records = {mode: self.new_record(problem, mode) for mode in self.options.mode}
        timers, samples = {}, {mode: [] for mode in records}
        try:
            element = self.dtype.itemsize
            from op_calls import Inputs

            inputs = Inputs(
                problem,
                copies_for(problem.least_bytes(element), self.cache_bytes),
                self.device,
                self.dtype,
                self.options.seed,
            )
        except Exception as error:
            for record in records.values():
                self.stop(record, error)
            return list(records.values())
        for mode, record in records.items():
            try:
                timers[mode] = self.prepare(mode, problem, inputs.sets, record)
            except Exception as error:
                self.stop(record, error)
            if mode in timers and record["outcome"] != "ok":
                del timers[mode]
            self.release()  # what a failed mode held
        for turn in range(self.options.warmup + self.options.reps):
            for mode, timer in timers.items():
                elapsed = timer.time_ms()
                if turn >= self.options.warmup:
                    samples[mode].append(elapsed)
        for mode in timers:
            self.fill(records[mode], problem, samples[mode])
        return list(records.values())

    def prepare(self, mode: str, problem: Problem, sets: list, record: dict):
        """The first call is compared before anything is timed."""
        import torch

        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
        from op_calls import CpuTimer, GpuTimer, error_of, kernel_of, make_call

        call = make_call(mode, problem, self.device, self.dtype)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                out = call(*sets[0])
            except RuntimeError as error:
                why = [one_line(w.message, 200) for w in said if "Triggered internally" in str(w.message)]
                reasons = "; ".join(text.split(" (Triggered")[0] for text in why)
                if reasons and "out of memory" not in str(error):
                    raise PeerError("unsupported", f"{one_line(error, 100)} {reasons}") from None
                raise
        if on_gpu:
            extra = torch.cuda.max_memory_allocated(self.device) - before
            record["memory"] = {"extra_peak_bytes": extra}
        error = error_of(problem, sets[0], out)
        del out
        record["kernel"] = kernel_of(mode, call, sets[0])
        record["rows_compared"] = error["rows_compared"]
        if not error["finite"]:
            record["outcome"] = "nonfinite"
            record["reason"] = "the output holds a value that is not finite; the times mean nothing"
            self.worst = self.worst or NONFINITE_EXIT_CODE
            return None
        record["max_abs_error"], record["relative_error"] = error["max_abs_error"], error["relative_error"]
        self.release()  # room for the memory of a graph
        timer = (GpuTimer if on_gpu else CpuTimer)(call, sets, self.device, self.options.graph)
        record.update(
            timed_as=timer.how, calls_in_window=timer.passes * timer.calls, rotated_buffers=timer.calls
        )
        return timer

    def stop(self, record: dict, error: BaseException) -> None:
        record["reason"] = one_line(error)
        record["outcome"], code = outcome_of(error)
        self.worst = self.worst or code

    def fill(self, record: dict, problem: Problem, samples: list) -> None:
        median = statistics.median(samples)
        add_series(record, {"time_ms": samples})
        record["tflops"] = problem.flops(problem.visible_pairs()) / (median * 1e9)
        record["tflops_full_matrix"] = problem.flops(problem.q_len * problem.kv_len) / (median * 1e9)
        record["gb_s"] = problem.least_bytes(self.dtype.itemsize) / (median * 1e6)

    @staticmethod
    def print_line(problem: Problem, record: dict) -> None:
        def metric(key):
            return f"{record[key]:.4g}" if record.get(key) is not None else "-"

        print(
            f"{record['parameters']['mode']:<14} {problem.text():<66} {metric('time_ms'):>9} ms "
            f"{metric('tflops'):>9} TFLOP/s {metric('gb_s'):>8} GB/s  error {metric('relative_error')} "
            f"({record['outcome']})",
            flush=True,
        )
        if record["reason"]:
            print(f"sdpa_bench: {record['reason']}", file=sys.stderr)


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise PeerError("unsupported", f"{error}; sdpa_bench needs torch") from None
    return OpSweep(options, sys.argv).run()


if __name__ == "__main__":
    sys.exit(guarded_main("sdpa_bench", main))
