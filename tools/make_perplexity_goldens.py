#!/usr/bin/env python3
# Makes tests/goldens/perplexity.json: what transformers gives under every perplexity protocol, for attnppl to meet.
"""usage: tools/make_perplexity_goldens.py --data DIR [--out FILE] [--only REGEX] [--short]

Needs torch and transformers. --only, --short: the other cases are kept as --out has them.

Nothing of lib/ is used: texts, windows and averages are those of perplexity_protocols.py, ids come from the
tokenizers package, logits from AutoModelForCausalLM. Weights and logits are float32 as the programs that define
the protocols have them; log-softmax and sums are float64. Cases that are not `long` are computed once more in
float64 throughout: `nll_sum_f64` shows how far float32 alone moves a sum. Sums do not repeat in their last digits
where the number of threads differs.
"""

import argparse
import hashlib
import json
import math
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import perplexity_protocols as protocols
from make_goldens import PATCHES
from perplexity_cases import CASES, WIKI, Case
from perplexity_protocols import Text
from stories_tokenizer import byte_symbols, tokenizer_json

ROOT = Path(__file__).resolve().parent.parent
TOKENS_TOGETHER = 8192  # fed in one pass


def published_sequence(data: Path, name: str) -> dict:
    reference = json.loads((data / "checkpoints/stories260K/reference.json").read_text())
    return reference["sequences"][int(name.removeprefix("sequence "))]


def read_text(data: Path, name: str) -> str:
    if name.startswith("sequence "):
        return " " + published_sequence(data, name)["text"]  # SentencePiece's leading space
    raw = (data / name).read_bytes()
    if name.endswith(".zst"):
        raw = subprocess.run(["zstd", "-dc"], input=raw, stdout=subprocess.PIPE, check=True).stdout
    return raw.decode()


class Words:
    """Bytes of each token, and how many words begin in it; the text is what the tokens decode to."""

    def __init__(self, tokenizer: Tokenizer):
        symbols = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
        added = {token_id: token.content for token_id, token in tokenizer.get_added_tokens_decoder().items()}
        self.spelled = {}
        for token, token_id in tokenizer.get_vocab().items():
            plain = added.get(token_id)
            self.spelled[token_id] = (
                plain.encode() if plain is not None else bytes(symbols.get(char, 0) for char in token)
            )

    def of(self, ids: list) -> list:
        """(words, bytes) of each token."""
        counts, in_word = [], False
        for token_id in ids:
            words = 0
            for byte in self.spelled[token_id]:
                is_space = byte in b" \t\n\v\f\r"
                words += not is_space and not in_word
                in_word = not is_space
            counts.append((words, len(self.spelled[token_id])))
        return counts


def texts_of(protocol: str, options: dict, text: str, encode) -> list:
    """The texts of one protocol with their windows."""
    tokens, samples = options.get("tokens"), options.get("samples")
    if protocol == "lm-eval":
        pages = protocols.wikitext_pages(text)
        texts = []
        for page in pages[: samples or None]:
            ids = encode(protocols.detokenize(page))
            windows = protocols.lm_eval(ids, options["context"], options["prefix"])
            texts.append(Text(page.split("\n")[1].strip(), ids, windows, protocols.page_counts(page)))
        return texts
    if protocol == "legacy-rows":
        rows = protocols.dataset_rows(text)[: samples or None]
        all_ids = [encode(row)[: options["context"]] for row in rows]  # cut as they are encoded
        return [Text("", ids, protocols.legacy_rows(ids)) for ids in all_ids]
    if protocol == "hf-strided":
        text = "\n\n".join(protocols.dataset_rows(text))
    if options.get("samples"):
        lines = text.split("\n")[: options["samples"]]  # as they are in the file
        text = "".join(line + "\n" for line in lines)
    ids = encode(text)[: tokens or None]
    if protocol == "hf-strided":
        fed = ids if options["bos"] is None else [options["bos"], *ids]  # a token as any other: it is context
        windows = protocols.hf_strided(fed, options["context"], options["stride"], options["average"])
        if options["bos"] is not None:
            for window in windows:
                window.at -= 1
    elif protocol == "full":
        windows = protocols.full(ids, options["context"], options["stride"], options["bos"], options["each"])
    elif protocol == "llama.cpp":
        windows = protocols.llama_cpp(ids, options["context"], options["bos"])
    else:
        windows = protocols.legacy_window(ids, options["context"], options["stride"])
    return [Text("", ids, windows)]


@torch.no_grad()
def losses_of(model, windows: list) -> list:
    """Losses of each window's targets. Windows of like length go together, the shorter ones padded behind."""
    order = sorted(range(len(windows)), key=lambda i: -len(windows[i].feed))
    losses: list = [None] * len(windows)
    while order:
        longest = len(windows[order[0]].feed)
        together = max(1, TOKENS_TOGETHER // longest)
        batch, order = order[:together], order[together:]
        rows = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, i in enumerate(batch):
            rows[row, : len(windows[i].feed)] = torch.tensor(windows[i].feed)
        logits = model(rows, use_cache=False).logits
        for row, i in enumerate(batch):
            window = windows[i]
            used = logits[row, window.row : window.row + len(window.targets)].double()
            log_p = torch.log_softmax(used, -1)
            losses[i] = -log_p.gather(1, torch.tensor(window.targets)[:, None])[:, 0]
    return losses


def figures_of(protocol: str, texts: list, losses: list, words: Words) -> dict:
    """What a record must say."""
    ids = [token_id for text in texts for token_id in text.ids]
    used = [text for text in texts if text.windows]
    windows = [window for text in used for window in text.windows]
    nll, scored, word_count, byte_count = 0.0, 0, 0, 0
    means, parts, at = [], [], 0
    for text in used:
        own = losses[at : at + len(text.windows)]
        at += len(text.windows)
        part = math.fsum(float(loss.sum()) for loss in own)
        counts = words.of(text.ids) if text.counted is None else []
        spans = [counts[w.at : w.at + len(w.targets)] for w in text.windows]
        own_words, own_bytes = text.counted or [sum(c[i] for span in spans for c in span) for i in (0, 1)]
        number = sum(len(loss) for loss in own)
        parts.append([number, own_words, own_bytes, float(f"{part:.10g}")])
        means += [float(loss.mean()) for loss in own]
        nll, scored = nll + part, scored + number
        word_count, byte_count = word_count + own_words, byte_count + own_bytes
    weights = [window.weight for window in windows]
    log_perplexity = math.fsum(m * w for m, w in zip(means, weights)) / math.fsum(weights)
    every = torch.cat(losses)
    record = {
        "protocol": protocol,
        "ids_sha256": hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest(),
        "tokens": len(ids),
        "samples_seen": len(texts),
        "samples_used": len(used),
        "windows": len(windows),
        "tokens_scored": scored,
        "words_scored": word_count,
        "bytes_scored": byte_count,
        "nll_sum": nll,
        "log_perplexity": log_perplexity,
        "perplexity": math.exp(log_perplexity),
        "word_perplexity": math.exp(nll / word_count),
        "byte_perplexity": math.exp(nll / byte_count),
        "bits_per_byte": nll / byte_count / math.log(2),
    }
    if protocol == "llama.cpp":  # its own +/-
        variance = float((every * every).mean()) - float(every.mean()) ** 2
        record["standard_error"] = math.sqrt(variance / (scored - 1)) * record["perplexity"]
    if len(used) > 1:
        record["documents"] = parts  # tokens, words, bytes scored and nll_sum of each
    return {key: float(f"{x:.12g}") if isinstance(x, float) else x for key, x in record.items()}


class Models:
    def __init__(self, data: Path):
        stories = data / "checkpoints/stories260K"
        self.folders = {"demo": ROOT / "models/demo", "stories260K": stories / "hf"}
        for name in ("config.json", "model.safetensors"):
            if not (self.folders["stories260K"] / name).exists():
                sys.exit(f"{stories}/hf has no {name}")
        self.tokenizer_file = ROOT / "tests/goldens/stories260K-tokenizer.json"
        made = json.dumps(tokenizer_json(stories / "tok512.bin"), ensure_ascii=False, separators=(",", ":"))
        self.tokenizer_file.write_text(made + "\n")
        self.loaded: dict = {}

    def tokenizer(self, name: str) -> Tokenizer:
        file = self.folders[name] / "tokenizer.json" if name == "demo" else self.tokenizer_file
        return Tokenizer.from_file(str(file))

    def get(self, name: str, dtype):
        if (name, dtype) not in self.loaded:
            model = AutoModelForCausalLM.from_pretrained(
                self.folders[name], dtype=dtype, attn_implementation="sdpa"
            )
            self.loaded[name, dtype] = model.eval()
        return self.loaded[name, dtype]


def make(case: Case, data: Path, models: Models) -> dict:
    begun = time.monotonic()
    tokenizer = models.tokenizer(case.model)
    words = Words(tokenizer)
    text = read_text(data, case.dataset)
    records, kept = [], []
    for protocol, options in case.records:
        texts = texts_of(protocol, options, text, lambda t: tokenizer.encode(t, add_special_tokens=False).ids)
        windows = [window for part in texts for window in part.windows]
        losses = losses_of(models.get(case.model, torch.float32), windows)
        record = figures_of(protocol, texts, losses, words)
        records.append({"protocol": record.pop("protocol"), "options": options, **record})
        kept.append(windows)
        print(f"{case.model}: {case.name}: {protocol} {record['nll_sum']} {record['perplexity']}", flush=True)
    out = {"name": case.name, "model": case.model, "dataset": case.dataset, "long": case.long}
    if case.dataset.startswith("sequence "):
        out["text"] = text
        out["published_perplexity"] = published_sequence(data, case.dataset)["ppl_f64"]
    out["arguments"] = case.arguments.split()
    out["records"] = records
    print(f"  {time.monotonic() - begun:.1f} s", flush=True)
    return out, kept


def check_pages(data: Path) -> None:
    """WikiText's pages and their de-tokenised form against what is published of the harness's."""
    published = json.loads((data / "reference/lm_eval/wikitext_docs.json").read_text())
    pages = protocols.wikitext_pages(read_text(data, WIKI))
    found = [(*protocols.page_counts(page), len(protocols.detokenize(page).encode())) for page in pages]
    if found != [(doc["words"], doc["bytes"], doc["detok_bytes"]) for doc in published["docs"]]:
        sys.exit("pages of wiki.test.raw are not those of lm-evaluation-harness")


def in_float64(case: Case, out: dict, kept: list, models: Models) -> None:
    for record, windows in zip(out["records"], kept):
        losses = losses_of(models.get(case.model, torch.float64), windows)
        nll = math.fsum(float(loss.sum()) for loss in losses)
        print(f"{case.model}: {case.name}: float32 off by {record['nll_sum'] / nll - 1:.1e}", flush=True)
        record["nll_sum_f64"] = float(f"{nll:.12g}")


def write(file: Path, head: dict, cases: list) -> None:
    """A line a record, so that a diff can be read."""
    lines = []
    for case in cases:
        records = case.pop("records")
        start = json.dumps(case, ensure_ascii=False)[:-1]
        rows = ",\n   ".join(json.dumps(record) for record in records)
        lines.append(f'  {start}, "records": [\n   {rows}]}}')
    text = json.dumps(head, indent=1)[:-2]
    file.write_text(text + ',\n "cases": [\n' + ",\n".join(lines) + "\n ]\n}\n")


def kept_case(case: Case, before: dict) -> dict:
    """As the file has it, if it is the same case."""
    found = before.get((case.model, case.name))
    same = found and found["dataset"] == case.dataset and found["arguments"] == case.arguments.split()
    if not same or [r["options"] for r in found["records"]] != [options for _, options in case.records]:
        sys.exit(f"{case.model}: {case.name}: not in the file as perplexity_cases.py has it; make it too")
    return {**found, "long": case.long}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes tests/goldens/perplexity.json.")
    parser.add_argument("--data", type=Path, required=True, help="folder with wikitext-2, pg19, checkpoints")
    parser.add_argument("--out", type=Path, default=ROOT / "tests/goldens/perplexity.json")
    parser.add_argument("--only", default="", help="make the cases whose `model: name` matches")
    parser.add_argument("--short", action="store_true", help="keep the long cases")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    before = {}
    if options.only or options.short:
        before = {
            (case["model"], case["name"]): case for case in json.loads(options.out.read_text())["cases"]
        }
    check_pages(options.data)
    models = Models(options.data)
    made = []
    for case in CASES:
        if (options.short and case.long) or not re.search(options.only, f"{case.model}: {case.name}"):
            made.append((case, kept_case(case, before), None))
        else:
            made.append((case, *make(case, options.data, models)))
    for cls, forward in PATCHES:  # the three places where transformers leaves float64
        cls.forward = forward
    for case, out, windows in made:
        if windows is not None and not case.long:
            in_float64(case, out, windows, models)
    used = sorted({case.dataset for case in CASES if not case.dataset.startswith("sequence ")})
    head = {
        "note": "See README.md. documents: [tokens, words, bytes scored, nll_sum] of each text that is used",
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "sha256": {name: hashlib.sha256((options.data / name).read_bytes()).hexdigest() for name in used},
    }
    write(options.out, head, [out for _, out, _ in made])


if __name__ == "__main__":
    main()
