#!/usr/bin/env python3
"""Runs clang-tidy over our own .cc files of a configured build folder, in parallel; a file that passed is skipped
until it, a header of ours that it includes, or .clang-tidy changes. Usage: run_clang_tidy.py BUILD_FOLDER"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import check_layers

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "lib", "apps")  # the macros of a test framework are not ours to judge


def own_files(path, found):
    """The file (relative to the root) and every header of ours that it includes, directly or not."""
    if path not in found and (ROOT / path).is_file():
        found.add(path)
        for _, _, target in check_layers.includes_of((ROOT / path).read_text(encoding="utf-8")):
            own_files(target, found)
    return found


def newest_change(path):
    return max((ROOT / file).stat().st_mtime for file in own_files(path, {".clang-tidy"}))


def run(build, path):
    """The complaints about one file; none if its stamp is newer than everything it is made of."""
    stamp = build / "stamps" / (path + ".ok")
    started = newest_change(path)
    if stamp.is_file() and stamp.stat().st_mtime >= started:
        return ""
    command = ["clang-tidy-14", "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines(keepends=True) if "warnings generated" not in line]
        return done.stdout + "".join(errors)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    os.utime(stamp, (started, started))  # a change made while clang-tidy ran is newer
    return ""


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(arguments[0]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {Path(command["directory"], command["file"]).resolve() for command in commands}
    paths = sorted(file.relative_to(ROOT).as_posix() for file in files if file.suffix == ".cc" and ROOT in file.parents)
    paths = [path for path in paths if path.split("/")[0] in FOLDERS]
    if not paths:
        print("run_clang_tidy: the build folder names no .cc file of ours", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda path: run(build, path), paths) if text]
    print("\n".join(complaints), end="")
    print(f"clang-tidy: {len(paths)} files, {len(complaints)} with warnings")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
