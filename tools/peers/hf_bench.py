#!/usr/bin/env python3
"""Measures text generation by transformers, with random weights, as attnbench measures its own.

Writes attnbench's result format, so that summarize can put the two side by side (--modes hf-compiled,flash).
docs/peers.md says what each mode is. Needs torch and transformers, but no network and no checkpoint.
"""

import argparse
import itertools
import os
import sys
import time

from peer_models import PRESETS, sizes_of
from peer_records import (
    EXIT_CODES,
    NONFINITE_EXIT_CODE,
    PeerError,
    Writer,
    add_agreement,
    add_list,
    add_series,
    add_system_b_keys,
    check_modes,
    driver_version,
    environment_fields,
    guarded_main,
    new_record,
    one_line,
    parse_lists,
    random_prompt,
    summary_of,
    token_series,
    token_sha256,
)

# Also in hf_generate.MODES, which needs torch; a test of the options must not.
MODE_NAMES = {
    "hf-eager": "attn_implementation='eager', growing cache",
    "hf-sdpa-flash": "SDPA, FlashAttention-2 only, growing cache",
    "hf-sdpa-math": "SDPA, math only, growing cache",
    "hf-compiled": "static cache, decode step by torch.compile as one CUDA graph; prefill as hf-sdpa-flash",
    "hf-compiled-efficient": "the same, decode attention by the memory-efficient kernel only",
    "hf-compiled-cudnn": "the same, decode attention by cuDNN only",
    "hf-compiled-math": "the same, decode attention as the math form, whose kernels the compiler makes",
}
DEFAULT_MODES = ["hf-eager", "hf-sdpa-flash", "hf-compiled"]
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def make_parser() -> argparse.ArgumentParser:
    modes = "modes:\n" + "\n".join(f"  {name:<22} {what}" for name, what in MODE_NAMES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=modes, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_list(
        parser,
        "--model",
        metavar="PRESET",
        type=str,
        help="presets of attnbench, e.g. pythia-2.8b; see --list-models",
    )
    add_list(
        parser, "--mode", metavar="MODE", type=str, default=DEFAULT_MODES, help="measured one after the other"
    )
    add_list(
        parser, "--prompt-tokens", metavar="N", help="prompt lengths, of the random ids that attnbench draws"
    )
    add_list(
        parser, "--new-tokens", metavar="N", default=[128], help="new tokens a sequence; nothing stops them"
    )
    add_list(
        parser,
        "--batch-sizes",
        "--batch-size",
        metavar="N",
        default=[1],
        help="sequences, all of the same prompt",
    )
    parser.add_argument(
        "--known-ids",
        type=int,
        metavar="N",
        help="draw the prompt's ids below N (default: the "
        "vocabulary); attnbench uses the tokenizer's size where the model's folder has one",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, or auto (default: %(default)s)")
    parser.add_argument(
        "--dtype", default="auto", choices=["auto", *DTYPES], help="auto: f32 on the CPU, bf16 on a GPU"
    )
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="CPU threads; 0: torch's own choice"
    )
    parser.add_argument(
        "--warmup", type=int, default=1, metavar="N", help="runs thrown away, after the cold run (default: 1)"
    )
    parser.add_argument(
        "--reps", type=int, default=5, metavar="N", help="timed runs of each mode (default: 5)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the prompt (default: 0)")
    parser.add_argument(
        "--out",
        default="results",
        help="folder (hf_bench.jsonl in it is appended to), FILE.jsonl "
        "(appended to) or FILE.json (default: results)",
    )
    parser.add_argument("--list-models", action="store_true", help="print the presets and exit")
    return parser


def parse(arguments: list):
    parser = make_parser()
    options = parser.parse_args(arguments)
    parse_lists(parser, options)
    if options.list_models:
        return options
    for name, value in (("--model", options.model), ("--prompt-tokens", options.prompt_tokens)):
        if not value:
            parser.error(f"{name} is needed")
    check_modes(parser, options.mode, MODE_NAMES)
    for name, least in (("warmup", 0), ("reps", 1), ("threads", 0), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}")
    if options.known_ids is not None and options.known_ids < 1:
        parser.error("--known-ids must be at least 1")
    return options


def cases_of(options) -> list:
    """(prompt tokens, batch, new tokens), in attnbench's order."""
    return list(itertools.product(options.prompt_tokens, options.batch_sizes, options.new_tokens))


def check_cases(options) -> None:
    """What cannot run at all is refused before any model is built."""
    for model in options.model:
        sizes = sizes_of(model)
        for prompt, _, new in cases_of(options):
            if sizes.learned_positions and prompt + new > sizes.max_positions:
                raise PeerError(
                    "bad_input",
                    f"{model}: prompt of {prompt} tokens and {new} new ones: the model has {sizes.max_positions} "
                    "learned positions and none beyond; shorten the prompt or ask for fewer new tokens",
                )


def open_device(name: str):
    """The torch device that a --device names."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    if kind != "cuda" or not (index or "0").isdigit():
        raise PeerError("usage", f"--device '{name}' is not known; it must be cpu, cuda, cuda:N, or auto")
    if not torch.cuda.is_available() or int(index or 0) >= torch.cuda.device_count():
        raise PeerError("device", f"--device {name}: torch finds {torch.cuda.device_count()} GPUs it can use")
    device = torch.device("cuda", int(index or 0))
    torch.cuda.set_device(device)
    return device


def open_dtype(name: str, device):
    """(attnbench's name, torch's dtype)."""
    import torch

    if name == "auto":
        name = "f32" if device.type == "cpu" else "bf16"
    return name, getattr(torch, DTYPES[name])


def library_versions() -> dict:
    import torch

    versions = {"torch": torch.__version__}
    transformers = sys.modules.get("transformers")
    if transformers is not None:
        versions["transformers"] = transformers.__version__
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if torch.cuda.is_available():
        versions.update(cudnn=str(torch.backends.cudnn.version()), driver=driver_version())
    return versions


def device_environment(argv: list, device, threads: int) -> dict:
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    versions = library_versions()
    peer = "transformers" if "transformers" in versions else "torch"
    return environment_fields(argv, f"{peer} {versions[peer]}", name, threads, versions)


def outcome_of(error: BaseException) -> tuple:
    """(outcome, exit code) of what stopped a mode."""
    import torch

    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or isinstance(error, MemoryError) or "out of memory" in text:
        return "out_of_memory", EXIT_CODES["out_of_memory"]
    if isinstance(error, PeerError):
        return ("unsupported" if error.kind == "unsupported" else "error"), EXIT_CODES[error.kind]
    if "No available kernel" in text or "No viable backend" in text or isinstance(error, NotImplementedError):
        return "unsupported", EXIT_CODES["unsupported"]
    return "error", EXIT_CODES["internal"]


def parameters_of(
    options, model: str, mode: str, device, dtype: str, case: tuple, ids: list, threads: int
) -> dict:
    """The keys of apps/attnbench/record_case.cc, equal for equal cases."""
    prompt_tokens, batch, new_tokens = case
    return {
        "mode": mode,
        "model": model,
        "model_source": "random weights",
        "random_weights": True,
        "device": str(device),
        "dtype": dtype,
        "batch_size": batch,
        "prompt": "random",
        "prompt_tokens": prompt_tokens,
        "prompt_sha256": token_sha256(ids),
        "max_prompt_tokens": None,
        "new_tokens": new_tokens,
        "temperature": 0,
        "top_k": 0,
        "top_p": 1,
        "seed": options.seed,
        "threads": threads,
        "warmup": options.warmup,
        "reps": options.reps,
    }


def fill_record(record: dict, run, build_s: float, step_bytes) -> None:
    """What a mode that ran gave; `run` is a ModeRun, step_bytes(batch, kv_len) the bytes of a decode step."""
    parameters = record["parameters"]
    batch, prompt, new = (parameters[key] for key in ("batch_size", "prompt_tokens", "new_tokens"))
    record["prefill_kernel"] = run.prefill_kernel
    if run.decode_kernel:
        record["decode_kernel"] = run.decode_kernel
    record["cold_ttft_ms"], record["cold_e2e_ms"] = run.cold_token_ms[0], run.cold_token_ms[-1]
    record["compile_s"] = run.compile_s
    record["load_s"] = build_s
    if not run.finite:
        record["outcome"], record["reason"] = "nonfinite", "the last logits hold a value that is not finite"
        return
    series = token_series(run.token_ms, batch, prompt)
    add_series(record, series, not_sampled=tuple(name for name in series if name != "ttft_ms"))
    if new == 1:
        record["tpot_reason"] = "one new token: there is no token after the first to time"
    record["wall_e2e_ms"] = summary_of(run.wall_ms)["median"]
    record["samples"].update(cold_token_ms=run.cold_token_ms, token_ms=run.token_ms, wall_e2e_ms=run.wall_ms)
    if record["tpot_ms"]:
        record["decode_gb_s"] = step_bytes(batch, prompt + new / 2.0) / (record["tpot_ms"] * 1e6)
    if run.peak_bytes is not None:
        record["peak_mem_mb"] = run.peak_bytes / (1 << 20)  # MiB
        record["memory"] = {
            "peak_bytes": run.peak_bytes,
            "reserved_peak_bytes": run.peak_reserved_bytes,
            "weights_bytes": run.weights_bytes,
        }


def shown(record: dict, key: str, unit: str, digits: int) -> str:
    value = record.get(key)
    return "-" if value is None else f"{value:.{digits}f} {unit}"


def print_row(record: dict) -> None:
    p = record["parameters"]
    compiled = f"  (compiled in {record['compile_s']:.1f} s)" if record.get("compile_s") else ""
    print(
        f"{p['mode']:<22} {p['model']:<14} {p['batch_size']:<3} {p['prompt_tokens']:<6} {p['new_tokens']:<5} "
        f"{shown(record, 'ttft_ms', 'ms', 3):<13} {shown(record, 'tpot_ms', 'ms', 3):<13} "
        f"{shown(record, 'throughput_tps', 'tok/s', 1):<15} {shown(record, 'peak_mem_mb', 'MiB', 2):<14} "
        f"{record['outcome']}{compiled}",
        flush=True,
    )


class Sweep:
    """One process: all models, cases and modes."""

    def __init__(self, options, argv: list):
        import torch

        self.options, self.worst = options, 0
        self.device = open_device(options.device)
        self.dtype_name, self.dtype = open_dtype(options.dtype, self.device)
        if options.threads > 0:
            torch.set_num_threads(options.threads)
        self.threads = torch.get_num_threads() if self.device.type == "cpu" else 0
        self.writer = Writer(options.out, "hf_bench.jsonl")
        self.environment = device_environment(argv, self.device, self.threads)

    def run(self) -> int:
        print(
            f"{'mode':<22} {'model':<14} {'B':<3} {'prompt':<6} {'new':<5} {'TTFT':<13} {'TPOT':<13} "
            f"{'throughput':<15} {'peak memory':<14} outcome",
            flush=True,
        )
        for model_name in self.options.model:
            self.run_model(model_name)
        print(f"Saved {self.writer.path}")
        return self.worst

    def run_model(self, model_name: str) -> None:
        from hf_generate import release
        from peer_models import random_model

        sizes = sizes_of(model_name)
        longest = max(prompt + new for prompt, _, new in cases_of(self.options))
        begin, model, failure = time.perf_counter(), None, None
        try:
            model = random_model(sizes, longest, self.device, self.dtype, self.options.seed)
        except Exception as error:  # a model that does not fit is a row of every case
            failure = (one_line(error), *outcome_of(error))
        build_s = time.perf_counter() - begin
        for case in cases_of(self.options):
            self.run_case(model_name, sizes, model, build_s, case, failure)
        del model
        release(self.device)

    def run_case(self, model_name: str, sizes, model, build_s: float, case: tuple, failure) -> None:
        from hf_generate import release, run_mode
        from peer_models import decode_step_bytes

        options, records, ids_of = self.options, [], {}
        prompt_tokens, batch, new_tokens = case
        ids = random_prompt(options.known_ids or sizes.vocab, prompt_tokens, options.seed)
        for mode in options.mode:
            record = new_record(
                "attnbench",
                parameters_of(
                    options, model_name, mode, self.device, self.dtype_name, case, ids, self.threads
                ),
                self.environment,
            )
            warning = sizes.warning(prompt_tokens + new_tokens)
            if warning:
                record["warning"] = warning
            stopped = failure
            if model is not None:
                try:
                    run = run_mode(model, sizes, mode, ids, batch, new_tokens, options.warmup, options.reps)
                    fill_record(record, run, build_s, lambda b, n: decode_step_bytes(model, sizes, b, n))
                    ids_of[mode] = run.ids
                except Exception as error:  # the mode becomes a row with the reason, and the sweep goes on
                    stopped = (one_line(error), *outcome_of(error))
                release(self.device)  # not inside `except`, where the error still holds the mode's tensors
            if stopped:
                record["reason"], record["outcome"], code = stopped
                self.worst = self.worst or code
                print(f"hf_bench: {mode}: {record['reason']}", file=sys.stderr)
            elif record["outcome"] == "nonfinite":
                self.worst = self.worst or NONFINITE_EXIT_CODE
            add_system_b_keys(record)
            records.append(record)
            add_agreement([record], ids_of)
            self.writer.append(record)
            print_row(record)


def main() -> int:
    options = parse(sys.argv[1:])
    if options.list_models:
        print("\n".join(PRESETS))
        return 0
    check_cases(options)
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise PeerError("unsupported", f"{error}; hf_bench needs torch and transformers") from None
    return Sweep(options, sys.argv).run()


if __name__ == "__main__":
    sys.exit(guarded_main("hf_bench", main))
