# Which tokens each perplexity protocol feeds and scores, written down from the programs that define it.
"""Plain Python: no model, no torch. tools/make_perplexity_goldens.py runs the windows through transformers.

A text is a list of ids. A protocol turns it into windows; a window is what is fed, which of the rows of logits
are used, the ids that they must predict, and where in the text these stand. Sources, read at these commits:

  hf-strided   transformers 052b1dcd docs/source/en/perplexity.md
  lm-eval      lm-evaluation-harness 4e7e0d47 lm_eval/utils.py, lm_eval/models/huggingface.py,
               lm_eval/tasks/wikitext/preprocess_wikitext.py, and the harness's cut of WikiText into pages
  llama.cpp    llama.cpp 050fc7f3 tools/perplexity/perplexity.cpp
  full, legacy-rows, legacy-window   docs/perplexity.md
"""

import re
from dataclasses import dataclass, field


@dataclass
class Window:
    feed: list  # ids
    row: int  # the first row of logits that is used; then one a target
    targets: list  # ids
    at: int  # index in the text of targets[0]; the others follow it
    weight: float  # of the mean loss of this window in the protocol's average


@dataclass
class Text:
    name: str
    ids: list
    windows: list = field(default_factory=list)
    counted: tuple | None = None  # (words, bytes) where the protocol counts them its own way


# ---- texts


def dataset_rows(text: str) -> list:
    """WikiText as the data-set library gives it: a line with its line end, or "" where nothing is on it."""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    return [row + "\n" if row.strip() else "" for row in rows]


def wikitext_pages(text: str) -> list:
    """Pages begin at a line `= Title =`; a line of two or more `=` at either side begins a section of a page."""
    pages, lines = [], []
    for line in text.split("\n"):
        bare = line.strip()
        is_section = bare.startswith("= =") or bare.endswith("= =")
        if bare.startswith("= ") and bare.endswith(" =") and not is_section:
            if "".join(lines).strip():
                pages.append("\n".join(lines))
            lines = []
        lines.append(line)
    return [*pages, "\n".join(lines)]


# The harness's replacements in its order: (what, by what, whether `what` is a regular expression).
DETOKENIZER = (
    [("s '", "s'", False), (r"/' [0-9]/", r"/'[0-9]/", True)]
    + [(f" @{mark}@ ", mark, False) for mark in "-,."]
    + [(f" {mark} ", f"{mark} ", False) for mark in ":;.!?,"]
    + [
        (f"{left}\\s*([^{right}]*?)\\s*{right}", f"{plain_left}\\1{plain_right}", True)
        for left, right, plain_left, plain_right in (
            (r"\(", r"\)", "(", ")"),
            (r"\[", r"\]", "[", "]"),
            ("{", "}", "{", "}"),
            ('"', '"', '"', '"'),
            ("'", "'", "'", "'"),
        )
    ]
    + [("= " * (n - 1) + "=", "=" * n, False) for n in (4, 3, 2)]
    + [(" \u00b0 ", "\u00b0", False), (" \n", "\n", False), ("\n ", "\n", False)]
    + [(" N ", " 1 ", False), (" 's", "'s", False)]
)


def detokenize(page: str) -> str:
    for what, by, is_pattern in DETOKENIZER:
        page = re.sub(what, by, page) if is_pattern else page.replace(what, by)
    return page


def page_counts(page: str) -> tuple:
    """(words, bytes) of a page as it was before de-tokenising; white space at an end adds an empty word."""
    return len(re.split(r"\s+", page)), len(page.encode())


# ---- windows


def full(ids: list, context: int, stride: int, bos: int | None, each: bool) -> list:
    """Every token once; `bos` before the first window, or before each, takes one place of the context and, before
    a later window, is one of the context - stride tokens that this one keeps."""
    windows, done = [], 0
    while done < len(ids):
        has_bos = bos is not None and (each or not windows)
        places = context - (1 if has_bos else 0)
        # A token without a predecessor cannot be scored: without BOS one old token at least is kept.
        kept = max(context - stride - 1, 0) if has_bos else max(context - stride, 1)
        begin = max(done - kept, 0) if windows else 0
        end = min(begin + places, len(ids))
        first = max(done, begin + (0 if has_bos else 1))
        feed = ([bos] if has_bos else []) + ids[begin:end]
        row = first - begin - (0 if has_bos else 1)
        if first < end:
            windows.append(Window(feed, row, ids[first:end], first, end - first))
        done = end
    return windows


def hf_strided(ids: list, context: int, stride: int, average: str) -> list:
    """The guide's loop. `average`: labels (as it stands), windows (as it was), or tokens."""
    windows, before = [], 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        labels = end - before  # the last `labels` ids of the window; the shift takes the window's first
        first = max(end - labels, begin + 1)
        if first < end:
            weight = {"labels": labels - 1, "windows": 1, "tokens": end - first}[average]
            windows.append(Window(ids[begin:end], first - 1 - begin, ids[first:end], first, weight))
        before = end
        if end == len(ids):
            break
    return windows


def lm_eval(ids: list, context: int, prefix: int) -> list:
    """The harness's rolling windows with context_len 1, made disjoint: each id is predicted once."""
    head = ids[:context]
    windows = [Window([prefix, *head[:-1]], 0, head, 0, len(head))]
    done = len(head)
    while done < len(ids):
        end = min(done + context, len(ids))
        feed = ids[end - context - 1 : end - 1]
        windows.append(Window(feed, context - (end - done), ids[done:end], done, end - done))
        done = end
    return windows


def llama_cpp(ids: list, context: int, bos: int | None) -> list:
    """Chunks; of each the logits at context/2 .. context-2 are used. With BOS it stands before the text and in
    the place of each chunk's first id."""
    stream = ids if bos is None else [bos, *ids]
    shift = 0 if bos is None else 1
    half = context // 2
    if len(stream) < 2 * context:
        raise ValueError("llama-perplexity wants two chunks")
    windows = []
    for begin in range(0, len(stream) - context + 1, context):
        chunk = stream[begin : begin + context]
        feed = chunk if bos is None else [bos, *chunk[1:]]
        targets = chunk[half + 1 :]
        windows.append(Window(feed, half, targets, begin + half + 1 - shift, len(targets)))
    return windows


def legacy_rows(ids: list) -> list:
    """One line, cut to the context as it was encoded: one window; each line weighs the same."""
    return [Window(ids, 0, ids[1:], 1, 1)] if len(ids) >= 2 else []


def legacy_window(ids: list, context: int, stride: int) -> list:
    """The first window has a label for each token, of which the first has no loss; later ones have `stride`."""
    windows = []
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        labels = end - begin if begin == 0 else min(stride, end - begin)
        first = max(end - labels, begin + 1)
        if first < end:
            windows.append(Window(ids[begin:end], first - 1 - begin, ids[first:end], first, labels))
        if end == len(ids):
            break
    return windows
