#!/usr/bin/env python3
"""Measures attnppl's tokenizer against the Rust `tokenizers` package, each on one thread, on the same bytes.

In turns, so that a machine that others use is as slow for both; the medians are printed and their ratio. Ids
must be equal, by SHA-256: a text where they are not is an error. Needs the package `tokenizers` and a built
attnppl; docs/peers.md says more.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the package is imported: it reads this once

from peer_records import REPOSITORY, PeerError, guarded_main, percentile, token_sha256  # noqa: E402

DATA = REPOSITORY.parent / "shared" / "data"
SLOWER_EXIT_CODE = 1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 ok, 1 slower than --floor or than the package, 2 usage, 3 bad input (ids that differ too).",
    )
    parser.add_argument(
        "--tokenizer",
        nargs="+",
        metavar="FOLDER",
        type=Path,
        default=[DATA / "tokenizers" / name for name in ("gpt2", "pythia")],
        help="folders with a tokenizer.json",
    )
    parser.add_argument(
        "--text",
        nargs="+",
        metavar="FILE",
        type=Path,
        default=[DATA / "wikitext-2" / "wiki.test.raw", DATA / "pg19"],
        help="UTF-8 text, plain or .zst; a folder: its *.txt and *.txt.zst, each encoded by itself",
    )
    builds = [REPOSITORY / "build" / preset / "bin" / "attnppl" for preset in ("auto", "cpu", "cuda")]
    built = next((program for program in builds if program.exists()), builds[0])
    parser.add_argument(
        "--attnppl", type=Path, metavar="PROGRAM", default=built, help="default: of the build folder"
    )
    parser.add_argument(
        "--reps", type=int, default=5, help="turns that count (default: 5), after one that does not"
    )
    parser.add_argument(
        "--floor", type=float, default=20.0, metavar="MB/S", help="what attnppl must reach (20)"
    )
    return parser


def read_text(path: Path) -> str:
    if path.suffix == ".zst":
        done = subprocess.run(["zstd", "-dcq", path], capture_output=True)
        if done.returncode != 0:
            raise PeerError("bad_input", f"{path}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode()
    return path.read_bytes().decode()


def texts_of(path: Path) -> list:
    """(name, text) in the order of the names, as attnppl reads a folder."""
    if not path.exists():
        raise PeerError("bad_input", f"{path}: does not exist")
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if re.search(r"\.txt(\.zst)?$", file.name))
        if not files:
            raise PeerError("bad_input", f"{path}: holds no *.txt and no *.txt.zst")
    return [(file.name, read_text(file)) for file in files]


class Package:
    """The Rust package: its fastest call that gives ids (no offsets are kept), special tokens found in the text."""

    def __init__(self, tokenizer: Path):
        if not (tokenizer / "tokenizer.json").exists():
            raise PeerError("bad_input", f"{tokenizer}: has no tokenizer.json")
        try:
            import tokenizers
        except ImportError as error:
            raise PeerError(
                "unsupported", "needs the Python package tokenizers: pip install tokenizers"
            ) from error
        self.version = tokenizers.__version__
        self.tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        self.name = f"tokenizers {self.version}"

    def run(self, texts: list) -> tuple:
        """(ids of all texts end to end, seconds of encoding)."""
        begin = time.perf_counter()
        encodings = [self.tokenizer.encode_batch_fast([text], add_special_tokens=False)[0] for text in texts]
        seconds = time.perf_counter() - begin
        ids = []
        for encoding in encodings:
            ids += encoding.ids
        return ids, seconds


class Ours:
    """attnppl --tokenize-only, which encodes on one thread and prints ids' hash, their number and the speed."""

    def __init__(self, program: Path, tokenizer: Path):
        if not program.exists():
            raise PeerError("bad_input", f"{program}: does not exist; build it, or name it with --attnppl")
        self.command = [str(program), "--tokenize-only", "--model", str(tokenizer)]
        self.name = "attnppl"

    def run(self, folder: str) -> dict:
        command = self.command + ["--dataset", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise PeerError("bad_input", f"{' '.join(command)}: {done.stderr.strip()}")
        found = dict(re.findall(r"^(tokens|sha256|bytes|MB/s) (\S+)$", done.stdout, re.MULTILINE))
        return {
            "tokens": int(found["tokens"]),
            "sha256": found["sha256"],
            "bytes": int(found["bytes"]),
            "mb_s": float(found["MB/s"]),
        }


def measure(program: Path, tokenizer: Path, path: Path, reps: int) -> tuple:
    """(bytes, ids, median MB/s of ours, of the package); Error if the ids differ."""
    ours, package = Ours(program, tokenizer), Package(tokenizer)
    named = texts_of(path)
    texts = [text for _, text in named]
    size = sum(len(text.encode()) for text in texts)
    our_speeds, package_speeds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in named:
            Path(folder, name.removesuffix(".zst")).with_suffix(".txt").write_bytes(text.encode())
        for turn in range(reps + 1):
            mine = ours.run(folder)
            ids, seconds = package.run(texts)
            if (mine["bytes"], mine["tokens"], mine["sha256"]) != (size, len(ids), token_sha256(ids)):
                raise PeerError(
                    "bad_input",
                    f"{path} with {tokenizer}: the ids differ: {mine['tokens']} ids ({mine['sha256'][:12]}) of attnppl, "
                    f"{len(ids)} ({token_sha256(ids)[:12]}) of {package.name}",
                )
            if turn > 0:  # the first turn warms up
                our_speeds.append(mine["mb_s"])
                package_speeds.append(size / seconds / 1e6)
    return (
        size,
        len(ids),
        percentile(sorted(our_speeds), 0.5),
        percentile(sorted(package_speeds), 0.5),
        package.name,
    )


def run(arguments: list) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.reps < 1:
        parser.error("--reps must be at least 1")
    slower = []
    print(
        f"{'tokenizer':<12} {'text':<16} {'bytes':>10} {'ids':>9} {'attnppl':>13} {'package':>13} {'ratio':>7}",
        flush=True,
    )
    for tokenizer in options.tokenizer:
        for path in options.text:
            size, ids, ours, theirs, name = measure(options.attnppl, tokenizer, path, options.reps)
            where = tokenizer.resolve().name
            print(
                f"{where:<12} {path.name:<16} {size:>10} {ids:>9} {ours:>8.2f} MB/s {theirs:>8.2f} MB/s {ours / theirs:>7.2f}",
                flush=True,
            )
            if ours < options.floor or ours < theirs:
                slower.append(f"{where} on {path.name}")
    print(f"medians of {options.reps} turns, one thread each; ids equal everywhere; package: {name}")
    if slower:
        print(
            f"tokenizers_bench: below {options.floor} MB/s or slower than the package: {', '.join(slower)}",
            file=sys.stderr,
        )
        return SLOWER_EXIT_CODE
    return 0


if __name__ == "__main__":
    sys.exit(guarded_main("tokenizers_bench", lambda: run(sys.argv[1:])))
