#!/usr/bin/env python3
# Measures models/demo in float64 on texts that it was not trained on, and writes its golden.
"""usage: tools/evaluate_demo_model.py [--data DIR --out FILE] [--reference FILE] [--model DIR] [--device D]

--out: perplexity and bits per byte of each evaluation text, every token but the first scored exactly once
(the windows of lib/text/windows.h), from the stored F16 weights. --reference: ids, negative log likelihoods,
logits and greedy continuations for tests/goldens/demo. The float64 replacements are those of
tools/make_goldens.py.
"""

import argparse
import hashlib
import json
import math
import struct
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from make_goldens import PATCHES, greedy, rounded, write_reference
from train_demo_model import read_text

EVALUATION_TEXTS = [
    "wikitext-2/wiki.test.raw",
    "pg19/10146.txt",
    "pg19/10321.txt",
    "pg19/10356.txt",
    "pg19/10762.txt",
]
WINDOWS = [(1024, 512), (2048, 1024)]  # context, stride
SCORED_TOGETHER = 8  # windows a pass

# Written for this project.
PASSAGE = """\
The lighthouse at the end of the harbour had not been lit for thirty years when the new keeper came. He
was a quiet man, who carried one small box and a long coat, and he asked nobody in the village for help.
Every evening he climbed the stairs, cleaned the great glass with a piece of cloth, and wrote two lines in
a book: how the wind stood, and which ships had passed. The children said that he was waiting for
somebody; their mothers said that he was only poor. In the first week of November a storm broke the sea
wall, and the boats could not find the entrance in the dark. Then the old lamp began to burn. It burned
until the morning, and when the last boat had come in, the keeper wrote: wind from the north, nine ships,
all of them home. After that night people left bread at his door, and sometimes fish.
"""
PASSAGE_TOKENS = 200
PROMPTS = [
    "The ship left the harbour in the morning",
    "It was a dark evening, and the captain said to the old man",
]
GREEDY_TOKENS = 64


def plan_windows(token_count: int, context: int, stride: int) -> list:
    """(begin, end, first_scored): as lib/text/windows.h says, for stride < context."""
    end = min(context, token_count)
    windows = [(0, end, 1)]
    while end < token_count:
        begin, first = end - (context - stride), end
        end = min(begin + context, token_count)
        windows.append((begin, end, first))
    return windows


@torch.no_grad()
def negative_log_likelihoods(model, ids: torch.Tensor, context: int, stride: int) -> torch.Tensor:
    """[token_count - 1]: the score of each token but the first, in nats."""
    scores = torch.full((len(ids),), float("nan"), dtype=torch.float64, device=ids.device)
    windows = plan_windows(len(ids), context, stride)
    while windows:
        length = windows[0][1] - windows[0][0]
        batch = [w for w in windows[:SCORED_TOGETHER] if w[1] - w[0] == length]
        windows = windows[len(batch) :]
        rows = torch.stack([ids[begin:end] for begin, end, _ in batch])
        log_p = torch.log_softmax(model(rows, use_cache=False).logits.double(), -1)[:, :-1]
        nll = -log_p.gather(2, rows[:, 1:, None])[:, :, 0]
        for row, (begin, end, first) in enumerate(batch):
            scores[first:end] = nll[row, first - begin - 1 :]
    assert not scores[1:].isnan().any()
    return scores[1:]


def evaluate(model, tokenizer: Tokenizer, data: Path, device: str) -> list:
    results = []
    for name in EVALUATION_TEXTS:
        text = read_text(data, name)
        ids = tokenizer.encode(text).ids
        row = {
            "text": name,
            "bytes": len(text.encode()),
            "words": len(text.split()),
            "tokens": len(ids),
            "sha256_ids_u32le": hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest(),
            "decodes_to_itself": tokenizer.decode(ids, skip_special_tokens=False) == text,
            "measured": [],
        }
        for context, stride in WINDOWS:
            nll = negative_log_likelihoods(model, torch.tensor(ids, device=device), context, stride)
            row["measured"].append(
                {
                    "context": context,
                    "stride": stride,
                    "scored": len(nll),
                    "mean_nll": float(nll.mean()),
                    "perplexity": float(nll.mean().exp()),
                    "bits_per_byte": float(nll.sum()) / math.log(2) / row["bytes"],
                    "standard_error_nll": float(nll.std() / math.sqrt(len(nll))),
                }
            )
            print(name, row["tokens"], row["measured"][-1], flush=True)
        results.append(row)
    return results


@torch.no_grad()
def reference(model, tokenizer: Tokenizer) -> dict:
    passage = tokenizer.encode(PASSAGE).ids[:PASSAGE_TOKENS]
    assert len(passage) == PASSAGE_TOKENS
    logits = model(torch.tensor([passage]), use_cache=False).logits[0]
    nll = -torch.log_softmax(logits[:-1], -1).gather(1, torch.tensor(passage[1:])[:, None])[:, 0]
    prompts = []
    for text in PROMPTS:
        ids = tokenizer.encode(text).ids
        last = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        continuation, margin = greedy(model, ids, GREEDY_TOKENS)
        prompts.append(
            {
                "text": text,
                "ids": ids,
                "greedy_ids": continuation,
                "greedy_text": tokenizer.decode(continuation, skip_special_tokens=False),
                "min_margin": float(f"{margin:.3g}"),
                "logits_last": rounded(last.tolist()),
            }
        )
        print(text, "->", prompts[-1]["greedy_text"], margin, flush=True)
    return {
        "note": "models/demo, F16 weights, computed in float64. nll[i] = -log p(ids[i+1] | ids[0..i]); "
        "logits_last: after the last id; min_margin: smallest distance of the two best logits in the greedy "
        "steps, over the largest logit",
        "text": PASSAGE,
        "ids": passage,
        "nll": rounded(nll.tolist()),
        "logits_last": rounded(logits[-1].tolist()),
        "prompts": prompts,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Measures models/demo and writes its golden.")
    parser.add_argument("--model", type=Path, default=root / "models" / "demo")
    parser.add_argument(
        "--data", type=Path, help="folder with the evaluation texts; none: the reference alone"
    )
    parser.add_argument("--out", type=Path, help="JSON file for the perplexities")
    parser.add_argument("--reference", type=Path, help="JSON file for the golden")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if bool(options.data) != bool(options.out):
        parser.error("--data and --out go together")

    transformers.utils.logging.disable_progress_bar()
    for cls, forward in PATCHES:
        cls.forward = forward
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.float64, attn_implementation="sdpa"
    ).eval()
    if options.reference:
        options.reference.parent.mkdir(parents=True, exist_ok=True)
        write_reference(reference(model, tokenizer), options.reference)
    if options.data:
        results = evaluate(model.to(options.device), tokenizer, options.data, options.device)
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        options.out.write_text(
            json.dumps({"dtype": "float64", "versions": versions, "texts": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
