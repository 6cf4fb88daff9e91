# The list of perplexity goldens: one row for each run of attnppl that must meet transformers' figures.
"""Data only; tools/make_perplexity_goldens.py turns each row into one of tests/goldens/perplexity.json.

Short cases are parts of a text, so that the tests of every change can run them; `long` ones are whole texts.
Options: the first `tokens` ids or `samples` lines or pages, where given; the others are the protocol's own.
"""

from dataclasses import dataclass

WIKI, WIKI_TOKENS, PLAYS = "wikitext-2/wiki.test.raw", "wikitext-2/wiki.test.tokens", "tinyshakespeare.txt"
BOOKS = ["10146", "10321", "10356", "10762"]


@dataclass
class Case:
    name: str
    model: str  # demo or stories260K
    dataset: str  # a file under --data, or "sequence N" of stories260K's reference.json
    arguments: str  # of attnppl, beside model, data set, device, modes and output
    records: list  # (protocol, options) that one mode's run must record, in order
    long: bool = False


def full(context, stride, bos=None, each=False, **limits):
    return ("full", {"context": context, "stride": stride, "bos": bos, "each": each, **limits})


def hf(context, stride, average="labels", bos=None, **limits):
    return ("hf-strided", {"context": context, "stride": stride, "average": average, "bos": bos, **limits})


def lm_eval(context, prefix, **limits):
    return ("lm-eval", {"context": context, "prefix": prefix, **limits})


def llama_cpp(context=512, bos=None, **limits):
    return ("llama.cpp", {"context": context, "bos": bos, **limits})


def legacy_rows(samples):
    """And, beside it, the same lines as one text."""
    return [
        ("legacy-rows", {"context": 512, "samples": samples}),
        full(1024, 512, samples=samples),
    ]


def legacy_window(**limits):
    """And, beside it, every token once."""
    return [("legacy-window", {"context": 1024, "stride": 512, **limits}), full(1024, 512, **limits)]


DEMO = [
    Case("full", "demo", WIKI, "--max-tokens 2800", [full(1024, 512, tokens=2800)]),
    Case(
        "full, small windows, BOS first",
        "demo",
        WIKI,
        "--context 256 --stride 96 --bos first --max-tokens 800",
        [full(256, 96, bos=0, tokens=800)],
    ),
    Case(
        "full, small windows, BOS before each",
        "demo",
        WIKI,
        "--context 256 --stride 96 --bos each --max-tokens 800",
        [full(256, 96, bos=0, each=True, tokens=800)],
    ),
    Case(
        "full, without overlap",
        "demo",
        WIKI,
        "--context 256 --stride 256 --max-tokens 1000",
        [full(256, 256, tokens=1000)],
    ),
    Case(
        "hf-strided",
        "demo",
        WIKI,
        "--protocol hf-strided --max-tokens 2700",
        [hf(2048, 512, tokens=2700)],
    ),
    Case(
        "hf-strided, its older form without overlap",
        "demo",
        WIKI,
        "--protocol hf-strided --average windows --context 512 --stride 512 --max-tokens 1700",
        [hf(512, 512, "windows", tokens=1700)],
    ),
    Case(
        "hf-strided, every loss alike",
        "demo",
        WIKI,
        "--protocol hf-strided --average tokens --context 300 --stride 130 --max-tokens 800",
        [hf(300, 130, "tokens", tokens=800)],
    ),
    Case("lm-eval", "demo", WIKI, "--protocol lm-eval --max-samples 1", [lm_eval(2048, 0, samples=1)]),
    Case(
        "lm-eval, smaller windows",
        "demo",
        WIKI,
        "--protocol lm-eval --context 600 --max-samples 1",
        [lm_eval(600, 0, samples=1)],
    ),
    Case("llama.cpp", "demo", WIKI, "--protocol llama.cpp --max-tokens 2200", [llama_cpp(tokens=2200)]),
    Case(
        "llama.cpp, chunks of an odd size",
        "demo",
        WIKI,
        "--protocol llama.cpp --context 301 --max-tokens 1000",
        [llama_cpp(301, tokens=1000)],
    ),
    Case("legacy-rows", "demo", WIKI_TOKENS, "--protocol legacy-rows --max-samples 20", legacy_rows(20)),
    Case(
        "legacy-window",
        "demo",
        "pg19/10146.txt.zst",
        "--protocol legacy-window --max-tokens 1800",
        legacy_window(tokens=1800),
    ),
]

STORIES = [
    *[
        Case(
            f"published sequence {i}", "stories260K", f"sequence {i}", "--bos first", [full(512, 256, bos=1)]
        )
        for i in range(3)
    ],
    Case("full", "stories260K", PLAYS, "--max-tokens 3000", [full(512, 256, tokens=3000)]),
    Case(
        "full, BOS before each",
        "stories260K",
        PLAYS,
        "--bos each --max-tokens 3000",
        [full(512, 256, bos=1, each=True, tokens=3000)],
    ),
    Case(
        "full, BOS before each, without overlap",
        "stories260K",
        PLAYS,
        "--bos each --stride 512 --max-tokens 3000",
        [full(512, 512, bos=1, each=True, tokens=3000)],
    ),
    Case(
        "hf-strided, BOS first",
        "stories260K",
        WIKI,
        "--protocol hf-strided --bos first --stride 200 --max-tokens 3000",
        [hf(512, 200, bos=1, tokens=3000)],
    ),
    Case("lm-eval", "stories260K", WIKI, "--protocol lm-eval --max-samples 2", [lm_eval(512, 1, samples=2)]),
    Case(
        "llama.cpp, BOS before each",
        "stories260K",
        PLAYS,
        "--protocol llama.cpp --max-tokens 3000",
        [llama_cpp(512, bos=1, tokens=3000)],
    ),
]

WHOLE_TEXTS = [
    Case("wiki.test.raw, full", "demo", WIKI, "", [full(1024, 512)], long=True),
    Case(
        "wiki.test.raw, hf-strided",
        "demo",
        WIKI,
        "--protocol hf-strided --context 1024 --stride 1024",
        [hf(1024, 1024)],
        long=True,
    ),
    Case("wiki.test.raw, lm-eval", "demo", WIKI, "--protocol lm-eval", [lm_eval(2048, 0)], long=True),
    Case("wiki.test.raw, llama.cpp", "demo", WIKI, "--protocol llama.cpp", [llama_cpp()], long=True),
    Case(
        "wiki.test.tokens, legacy-rows",
        "demo",
        WIKI_TOKENS,
        "--protocol legacy-rows",
        legacy_rows(128),
        long=True,
    ),
    *[
        Case(
            f"book {book}, legacy-window",
            "demo",
            f"pg19/{book}.txt.zst",
            "--protocol legacy-window",
            legacy_window(),
            long=True,
        )
        for book in BOOKS
    ],
]

CASES = [*DEMO, *STORIES, *WHOLE_TEXTS]
