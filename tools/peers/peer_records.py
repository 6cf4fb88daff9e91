"""Result records of the peers: the same schema, formulas and random prompts as attnbench. Needs no torch."""

import datetime
import hashlib
import json
import math
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Exit codes by kind of failure, as every program of the project has them.
EXIT_CODES = {"usage": 2, "bad_input": 3, "unsupported": 4, "out_of_memory": 5, "device": 6, "internal": 7}
NONFINITE_EXIT_CODE = 1
INTERRUPTED_EXIT_CODE = 130


class PeerError(Exception):
    """A failure with the kind that becomes the exit code."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


# --- statistics and metrics: docs/measuring.md ---


def percentile(ordered: list, fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    below = int(position)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])


def summary_of(samples: list):
    """{n, median, mean, stddev, p10, p90, p99, min, max}; None without samples; stddev None for one sample."""
    if not samples:
        return None
    if not all(math.isfinite(x) for x in samples):
        raise PeerError("internal", f"a sample is not finite: {samples}")
    n = len(samples)
    mean = math.fsum(samples) / n
    ordered = sorted(samples)
    return {
        "n": n,
        "median": percentile(ordered, 0.5),
        "mean": mean,
        "stddev": math.sqrt(math.fsum((x - mean) ** 2 for x in samples) / (n - 1)) if n > 1 else None,
        "p10": percentile(ordered, 0.1),
        "p90": percentile(ordered, 0.9),
        "p99": percentile(ordered, 0.99),
        "min": ordered[0],
        "max": ordered[-1],
    }


def token_series(repetitions: list, batch: int, prompt_tokens: int) -> dict:
    """Metric -> samples, from the time stamps in ms since the call of each repetition's new tokens."""
    names = (
        "ttft_ms",
        "tpot_ms",
        "itl_ms",
        "e2e_ms",
        "throughput_tps",
        "output_tps",
        "total_tps",
        "prefill_tps",
    )
    series = {name: [] for name in names}

    def rate(name: str, tokens: int, elapsed_ms: float) -> None:
        if elapsed_ms > 0:
            series[name].append(tokens * 1000.0 / elapsed_ms)

    for stamps in repetitions:
        if any(later < earlier for earlier, later in zip([0.0] + stamps, stamps)):
            raise PeerError("internal", f"the clock ran backwards: {stamps}")
        n, first, end = len(stamps), stamps[0], stamps[-1]
        series["ttft_ms"].append(first)
        series["e2e_ms"].append(end)
        series["itl_ms"] += [later - earlier for earlier, later in zip(stamps, stamps[1:])]
        if n > 1:
            series["tpot_ms"].append((end - first) / (n - 1))
            rate("throughput_tps", batch * (n - 1), end - first)
        rate("output_tps", batch * n, end)
        rate("total_tps", batch * (prompt_tokens + n), end)
        rate("prefill_tps", batch * prompt_tokens, first)
    return series


# --- random prompts: lib/core/rng.h, lib/text/prompts.cc, lib/text/token.cc ---

_64_BITS = (1 << 64) - 1


def mix_bits(x: int) -> int:
    """The finaliser of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & _64_BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return x ^ (x >> 31)


def random_prompt(known_ids: int, count: int, seed: int) -> list:
    """The ids that attnbench --prompt-tokens draws: below known_ids, from the seed."""
    stream = mix_bits(mix_bits(seed))  # sequence 0
    return [(mix_bits(stream ^ i) >> 32) * known_ids >> 32 for i in range(count)]


def token_sha256(ids: list) -> str:
    """Of the ids as little-endian 32-bit integers."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def add_agreement(records: list, ids_of: dict) -> None:
    """How far each mode's ids [sequence][token] of its first run equal those of the first mode that ran."""
    first = next((mode for mode in ids_of), None)
    for record in records:
        mode = record["parameters"]["mode"]
        if mode not in ids_of:
            continue
        record["ids_sha256"] = token_sha256(ids_of[mode][0])
        if mode == first:
            continue
        equal = total = 0
        for ours, theirs in zip(ids_of[mode], ids_of[first]):
            differ = (i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
            equal += next(differ, len(ours))
            total += len(ours)
        record.update(agrees_with=first, equal_leading_tokens=equal, compared_tokens=total)


# --- records: docs/results.md ---

SECTIONS = ("memory", "statistics", "samples", "environment")


def new_record(app: str, parameters: dict, environment: dict, outcome: str = "ok", reason: str = "") -> dict:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"schema": "attnbench/1", "app": app, "time": now, "outcome": outcome, "reason": reason}
    record["parameters"] = parameters
    record["environment"] = environment
    return record


def add_series(record: dict, series: dict, not_sampled: tuple = ()) -> None:
    """The median of each metric at the top level, its statistics and its samples in their sections."""
    for name, samples in series.items():
        summary = summary_of(samples)
        record[name] = summary["median"] if summary else None
        if summary:
            record.setdefault("statistics", {})[name] = summary
            if name not in not_sampled:
                record.setdefault("samples", {})[name] = samples


def add_system_b_keys(record: dict) -> None:
    """The keys of generation records that scripts for the PyTorch programs read."""
    parameters = record["parameters"]
    for key, source in (
        ("batch_size", "batch_size"),
        ("max_new_tokens", "new_tokens"),
        ("prompt_seq_len", "prompt_tokens"),
    ):
        record[key] = parameters[source]
    for key in ("ttft_ms", "tpot_ms", "throughput_tps", "peak_mem_mb"):
        record.setdefault(key, None)
    record["config"] = {
        "mode": parameters["mode"],
        "device": parameters["device"],
        "model_name": parameters["model"],
        "prompt_path": parameters["prompt"],
        "max_prompt_tokens": parameters["max_prompt_tokens"],
        "FLASH_SDPA": None,
    }


def in_order(record: dict) -> dict:
    """Scalars first, then the sections in the documented order."""
    last = ("parameters",) + SECTIONS
    ordered = {key: value for key, value in record.items() if key not in last}
    ordered.update((key, record[key]) for key in last if key in record)
    return ordered


class Writer:
    """FOLDER (FOLDER/file_name is appended to), FILE.jsonl (appended to) or FILE.json (one document)."""

    def __init__(self, out: str, file_name: str):
        path = Path(out)
        self.document = path.suffix == ".json" and not path.is_dir()
        if not self.document and (path.suffix != ".jsonl" or path.is_dir()):
            path = path / file_name
        self.path, self.records = path, []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self.document:
                self._end_last_line()
            elif not os.access(path.parent, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise PeerError(
                "bad_input", f"cannot write {path}: {error.strerror}; choose another place with --out"
            ) from None

    def _end_last_line(self) -> None:
        """A torn last line moves to FILE.jsonl.torn, so that every line of the file stays a whole record."""
        with open(self.path, "a+b") as file:
            file.seek(0)
            text = file.read()
            if not text:
                os.unlink(self.path)  # an empty file would read as a run without results
            if not text or text.endswith(b"\n"):
                return
            begin = text.rfind(b"\n") + 1
            try:
                json.loads(text[begin:])
                file.write(b"\n")
            except ValueError:
                with open(f"{self.path}.torn", "ab") as torn:
                    torn.write(text[begin:] + b"\n")
                file.truncate(begin)

    def append(self, record: dict) -> None:
        line = json.dumps(in_order(record), allow_nan=False)
        if not self.document:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
            return
        self.records.append(line)
        temporary = Path(f"{self.path}.{os.getpid()}.tmp")
        temporary.write_text('{"results": [\n' + ",\n".join(self.records) + "\n]}\n", encoding="utf-8")
        os.replace(temporary, self.path)


# --- environment ---


def _first_match(path: str, prefix: str) -> str:
    """The value of the first line `PREFIX <: or => VALUE` of a file; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(prefix):
                    return line.replace("=", ":", 1).partition(":")[2].strip().strip('"')
    except OSError:
        pass
    return ""


def driver_version() -> str:
    """Of the NVIDIA kernel driver; empty where there is none."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split()
        return next((word for word in words if word[0].isdigit() and "." in word), "")
    except OSError:
        pass
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()
        return answer[0] if answer else ""
    except (OSError, subprocess.SubprocessError):
        return ""


def git_commit() -> tuple:
    """(commit, tracked files differ from it), or ("", False) outside a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(REPOSITORY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return "", False


def environment_fields(argv: list, peer: str, device: str, threads: int, libraries: dict) -> dict:
    """`peer`, in words, stands where our programs name their compiler: what ran is another program."""
    commit, dirty = git_commit()
    cpu = _first_match("/proc/cpuinfo", "model name") or platform.machine()
    fields = {
        "argv": argv,
        "peer": peer,
        "git_commit": commit,
        "git_dirty": dirty,
        "device": device or cpu,
        "cpu": cpu,
        "logical_cores": len(os.sched_getaffinity(0)),
        "ram_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"),
        "os": _first_match("/etc/os-release", "PRETTY_NAME"),
        "kernel": " ".join((platform.system(), platform.release(), platform.machine())),
    }
    if threads > 0:
        fields["threads"] = threads
    fields["libraries"] = {"python": platform.python_version(), **libraries}
    return fields


# --- command line ---


def add_list(parser, *flags: str, metavar: str, help: str, type=int, default=None) -> None:
    """Values by commas, by spaces, or by repeating the flag."""
    shown = "" if default is None else f" (default: {','.join(map(str, default))})"
    parser.add_argument(*flags, nargs="+", action="extend", metavar=metavar, help=help + shown)
    action = parser._option_string_actions[flags[0]]
    parser.peer_lists = getattr(parser, "peer_lists", []) + [(action.dest, flags[0], type, default)]


def parse_lists(parser, options) -> None:
    """Turns what add_list() collected into lists of positive numbers, or of words."""
    for name, flag, kind, default in parser.peer_lists:
        raw = getattr(options, name)
        if raw is None:
            setattr(options, name, default)
            continue
        words = [word for item in raw for word in item.split(",") if word]
        values = []
        for word in words:
            try:
                values.append(kind(word))
            except ValueError:
                parser.error(f"{flag} '{word}' is not a number")
            if kind is int and values[-1] < 1:
                parser.error(f"{flag} must be at least 1, not {word}")
        if not values:
            parser.error(f"{flag} needs a value")
        setattr(options, name, values)


def check_modes(parser, modes: list, known: dict) -> None:
    for i, mode in enumerate(modes):
        if mode not in known:
            parser.error(f"--mode '{mode}' is not known; it must be one of: {', '.join(known)}")
        if mode in modes[:i]:
            parser.error(f"--mode names '{mode}' twice")


def one_line(error: BaseException, limit: int = 400) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def guarded_main(program: str, main) -> int:
    """Errors in one line on stderr, with the exit code of their kind."""
    try:
        return main()
    except PeerError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_CODES[error.kind]
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the file of results holds every case up to here", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
