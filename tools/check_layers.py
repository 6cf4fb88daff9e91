#!/usr/bin/env python3
"""Checks who includes whom: the table of docs/architecture.md, kept here as data. Usage: check_layers.py [ROOT]"""
import re
import sys
from pathlib import Path

# What each room may include beside itself. A room brings along what it may include in turn; a file brings itself alone.
ROOMS = {
    "kernels": [],
    "kernels/cpu": ["kernels"],
    "kernels/cuda": ["kernels"],
    "lib/core": [],
    "lib/tensor": ["lib/core", "kernels/dtype.h"],
    "lib/backend": ["lib/tensor", "kernels/logit_comparison.h"],
    "lib/backend_cpu": ["lib/backend", "kernels", "kernels/cpu"],
    "lib/backend_cuda": ["lib/backend", "kernels", "kernels/cuda"],
    "lib/text": ["lib/core"],
    "lib/model": ["lib/backend", "lib/text/token.h"],
    "lib/train": ["lib/model", "lib/text"],
    "lib/eval": ["lib/model", "lib/text"],
    "lib/measure": ["lib/core", "lib/backend/device.h", "lib/backend/sensors.h"],
    "lib/results": ["lib/core", "lib/backend/device.h"],
}
# Single files that may reach further than their room.
FACTORY = "lib/backend/platform.cc"
FILES = {
    FACTORY: ["lib/backend_cpu", "lib/backend_cuda"],  # the factory knows every device
    "lib/backend/logit_comparison.cc": ["kernels/logit_terms.h"],  # the formulas that GPUs compute with too
    "lib/backend/attention_inputs.h": ["kernels/attention_params.h"],  # from our tensors to the struct kernels take
}
# Where a CUDA header may stand; elsewhere a build without CUDA must compile.
CUDA_ROOMS = ("kernels/cuda", "lib/backend_cuda")
CUDA_HEADER = re.compile(r"(cuda|cublas|curand|cudnn|nvml|nvtx|nvrtc|cub/|cutlass/|thrust/|mma\.h|cooperative_groups)")
# Headers that CMake writes into the build folder, and their only reader.
GENERATED = {"build_config.h": "lib/core/build_info.cc", "git_commit.h": "lib/core/build_info.cc"}

TOP_FOLDERS = ("kernels", "lib", "apps", "tests", "tools")
HEADERS = {".h", ".cuh"}
SOURCES = HEADERS | {".cc", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_SWITCH = re.compile(r"^\s*#\s*(el)?ifn?(def)?\b.*\bATTN_WITH_CUDA\b")


def room_of(path):
    """The room of a path relative to the root: "lib/core/error.h" -> "lib/core", "apps/attnppl/run.h" -> "apps/attnppl"."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2])


def permitted(room):
    """Every room and single file that a room may include, itself among them."""
    found, waiting = set(), [room]
    while waiting:
        entry = waiting.pop()
        if entry not in found:
            found.add(entry)
            waiting += ROOMS.get(entry, [])
    return found


def includes_of(text):
    """(line number, "<" or a quote, path) of every include in a source text."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1], match[2]


def why_not(path, target):
    """None if the file `path` may include the file `target` (both relative to the root); else the reason."""
    room, other = room_of(path), room_of(target)
    top, other_top = room.split("/")[0], other.split("/")[0]
    if room == other or top in ("tests", "tools"):
        return None
    if top == "apps":
        if other_top == "lib" or other == "apps":
            return None
        return "apps include lib and what apps share, never kernels, tests or another app"
    if room not in ROOMS:
        return f"the room {room} is not in the table of tools/check_layers.py"
    may = permitted(room)
    if other in may or target in may or {other, target} & set(FILES.get(path, [])):
        return None
    return f"{room} may include only: {', '.join(sorted(may - {room})) or 'itself'}"


def check_source(root, path):
    """The complaints about one source file."""
    text = (root / path).read_text(encoding="utf-8")
    if not text.startswith(("//", "/*")):
        yield f"{path}:1: the first line must be a comment that says the file's one job"
    in_cuda_room = room_of(path) in CUDA_ROOMS
    may_name_cuda = in_cuda_room or (path.startswith("tests/") and Path(path).suffix not in HEADERS)
    for number, line in enumerate(text.splitlines(), 1):
        if CUDA_SWITCH.match(line) and path != FACTORY:
            yield f"{path}:{number}: only {FACTORY} may ask #if ATTN_WITH_CUDA"
    for number, mark, target in includes_of(text):
        place = f"{path}:{number}"
        own = target.split("/")[0] in TOP_FOLDERS and "/" in target
        if mark == "<":
            if own:
                yield f'{place}: write "{target}" in quotes: it is a file of ours'
            elif CUDA_HEADER.match(target) and not may_name_cuda:
                yield f"{place}: <{target}> is a CUDA header; only {' and '.join(CUDA_ROOMS)} may include one"
        elif target in GENERATED:
            if path != GENERATED[target]:
                yield f"{place}: only {GENERATED[target]} may include the generated {target}"
        elif not own:
            yield f'{place}: "{target}" must be written from the root of the repository, or in <> if it is not ours'
        elif not (root / target).is_file():
            yield f'{place}: there is no file "{target}"'
        else:
            reason = why_not(path, target)
            if reason:
                yield f'{place}: must not include "{target}": {reason}'


def check_links(root, room):
    """The complaints about the libraries of ours that a room's CMakeLists.txt names: the same table rules them."""
    path = root / room / "CMakeLists.txt"
    if not path.is_file():
        return
    may = {"/".join(entry.split("/")[:2]) for entry in permitted(room)}
    if room == room_of(FACTORY):
        may |= set(FILES[FACTORY])
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for name in re.findall(r"\battn_(\w+)", line.split("#")[0]):
            other = name.replace("kernels_", "kernels/") if name.startswith("kernels_") else f"lib/{name}"
            if other in ROOMS and other not in may:
                yield f"{room}/CMakeLists.txt:{number}: {room} must not link attn_{name}"


def source_files(root):
    """Every source file of the project, as a path relative to the root with forward slashes."""
    for top in TOP_FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                yield path.relative_to(root).as_posix()


def check(root):
    """All complaints about the tree under root, one line each."""
    complaints = []
    for path in source_files(root):
        complaints += check_source(root, path)
    for room in ROOMS:
        complaints += check_links(root, room)
    for folder in sorted((root / "lib").iterdir()):
        room = f"lib/{folder.name}"
        if folder.is_dir() and room not in ROOMS and any(folder.iterdir()):
            complaints.append(f"{room}: this room is not in the table of tools/check_layers.py")
    return complaints


def main(arguments):
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    if not (root / "lib").is_dir():
        print(f"check_layers: {root} holds no lib/ folder; give the root of the repository", file=sys.stderr)
        return 2
    complaints = check(root)
    for complaint in complaints:
        print(complaint)
    if complaints:
        print(f"check_layers: {len(complaints)} found; docs/architecture.md shows the table of who may include whom")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
