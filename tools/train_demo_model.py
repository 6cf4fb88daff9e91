#!/usr/bin/env python3
# Trains models/demo: a small GPT-NeoX and its byte-level BPE tokenizer, saved in Hugging Face form.
"""usage: tools/train_demo_model.py --data DIR --out DIR [options]     needs torch, transformers, tokenizers

--data holds the texts listed in TRAINING_TEXTS, plain or as .zst; models/demo/README.md says where they come
from. Of each text the last part is held out: the loss on it is watched, and the weights with the lowest one
are kept.
Weights are trained in float32 under bf16 autocast and stored as F16. The log goes to OUT/training.json.
tools/evaluate_demo_model.py measures the result on texts that no training ever sees.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

# Kept for evaluation, never read here: wiki.test.*, and the books 10146, 10321, 10356, 10762.
TRAINING_TEXTS = [
    "wikitext-2/wiki.valid.raw",
    "tinyshakespeare.txt",
    "pg19/10148.txt",
    "pg19/10574.txt",
    "pg19/10606.txt",
    "pg19/10609.txt",
    "pg19/10662.txt",
    "pg19/10814.txt",
    "pg19/11052.txt",
    "pg19/2701.txt",
]
END_OF_TEXT = "<|endoftext|>"  # id 0; separates documents

# As the Pythia models spell it, so that old and new versions of transformers read it.
CONFIG = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 192,
    "initializer_range": 0.02,
    "intermediate_size": 768,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "num_attention_heads": 3,
    "num_hidden_layers": 6,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_cache": True,
    "use_parallel_residual": True,
    "vocab_size": 2048,
}


def read_text(data: Path, name: str) -> str:
    plain, packed = data / name, data / (name + ".zst")
    if plain.exists():
        raw = plain.read_bytes()
    elif packed.exists():
        raw = subprocess.run(["zstd", "-dcq", packed], check=True, stdout=subprocess.PIPE).stdout
    else:
        sys.exit(f"{plain} is missing, and {packed.name} too: --data needs every text of TRAINING_TEXTS")
    return raw.decode("utf-8")


def split_text(text: str, held_out: float) -> tuple:
    """The end of a text, cut at a line, is held out."""
    cut = text.rfind("\n", 0, int(len(text) * (1 - held_out))) + 1
    return text[:cut], text[cut:]


def train_tokenizer(texts: list, vocab: int) -> Tokenizer:
    """The parts of the GPT-NeoX tokenizer: NFC, GPT-2's split pattern, bytes as symbols, merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocab:
        sys.exit(f"the tokenizer has {tokenizer.get_vocab_size()} entries, not {vocab}: too little text?")
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path, context: int) -> None:
    """Merges as "a b", which every version of tokenizers reads; newer ones write pairs."""
    data = json.loads(tokenizer.to_str())
    for part in ("post_processor", "decoder"):
        data[part]["add_prefix_space"] = False  # without effect there; said as the Pythia file says it
    data["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    (out / "tokenizer.json").write_text(
        json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    config = {
        "add_prefix_space": False,
        "bos_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
        "eos_token": END_OF_TEXT,
        "model_max_length": context,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": END_OF_TEXT,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encode(tokenizer: Tokenizer, texts: list) -> torch.Tensor:
    stream = []
    for text in texts:
        stream += tokenizer.encode(text).ids + [0]
    return torch.tensor(stream)


def new_model(dropout: float) -> GPTNeoXForCausalLM:
    config = GPTNeoXConfig(
        **{**CONFIG, "torch_dtype": "float32"}, hidden_dropout=dropout, attention_dropout=dropout
    )
    model = GPTNeoXForCausalLM._from_config(config, attn_implementation="sdpa")
    depth_scale = 1 / math.sqrt(2 * config.num_hidden_layers)  # GPT-2's: the residual's variance stays near 1
    with torch.no_grad():
        for layer in model.gpt_neox.layers:
            layer.attention.dense.weight.mul_(depth_scale)
            layer.mlp.dense_4h_to_h.weight.mul_(depth_scale)
    return model


def loss_of(model, ids: torch.Tensor, device: str) -> torch.Tensor:
    """ids [batch, context + 1]: mean loss of the last context ids."""
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = model(ids[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model, stream: torch.Tensor, context: int, device: str) -> float:
    """Disjoint windows over the held-out texts; the remainder is left out."""
    model.eval()
    rows = (len(stream) - 1) // context
    losses = [
        loss_of(model, stream[None, row * context : (row + 1) * context + 1], device) for row in range(rows)
    ]
    model.train()
    return float(torch.stack(losses).mean())


def optimizer_of(model, options) -> torch.optim.AdamW:
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": options.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.95), fused=options.device != "cpu")


def learning_rate(step: int, progress: float, options) -> float:
    """Linear warm-up, then a cosine down to 2 % of the peak."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return options.lr * min(1.0, (step + 1) / options.warmup) * (0.02 + 0.98 * cosine)


def train(model, training: torch.Tensor, held_out: torch.Tensor, options) -> dict:
    """Leaves the best weights in the model; returns the log."""
    device, context = options.device, options.context
    optimizer = optimizer_of(model, options)
    forward = torch.compile(model) if options.compile else model
    generator = torch.Generator(device=device).manual_seed(options.seed)
    offsets = torch.arange(context + 1, device=device)
    log, best_loss, best_step, best = [], float("inf"), 0, None
    recent = torch.zeros((), device=device)
    model.train()
    start, step = time.monotonic(), 0
    while True:
        elapsed = time.monotonic() - start
        progress = max(step / options.steps, elapsed / options.max_seconds)
        done = progress >= 1.0
        if done or (step and step % options.log_every == 0):
            row = {
                "step": step,
                "seconds": round(elapsed, 1),
                "epochs": round(step * options.batch * context / len(training), 2),
                "training_loss": round(float(recent) / options.log_every, 4),
                "held_out_loss": round(held_out_loss(model, held_out, context, device), 4),
            }
            if step % options.log_every:
                del row["training_loss"]  # a part of an interval
            recent.zero_()
            log.append(row)
            print(row, flush=True)
            if row["held_out_loss"] < best_loss:
                best_loss, best_step = row["held_out_loss"], step
                best = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if done:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, progress, options)
        begins = torch.randint(
            len(training) - context, (options.batch, 1), generator=generator, device=device
        )
        loss = loss_of(forward, training[begins + offsets], device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent += loss.detach()
        step += 1
    model.load_state_dict(best)
    return {
        "steps": step,
        "best_step": best_step,
        "best_held_out_loss": best_loss,
        "seconds": round(time.monotonic() - start, 1),
        "log": log,
    }


def save_model(model, out: Path) -> None:
    model.half().save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains models/demo.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the training texts")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; replaced")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument(
        "--max-seconds", type=float, default=3600, help="the schedule ends here if this comes first"
    )
    parser.add_argument("--batch", type=int, default=8, help="sequences a step")
    parser.add_argument("--context", type=int, default=2048, help="tokens a sequence")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=int, default=200, help="steps")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--held-out", type=float, default=0.03, help="share of each text")
    parser.add_argument("--log-every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true", help="torch.compile the forward pass")
    options = parser.parse_args()

    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    parts = [split_text(read_text(options.data, name), options.held_out) for name in TRAINING_TEXTS]
    tokenizer = train_tokenizer([part[0] for part in parts], CONFIG["vocab_size"])
    save_tokenizer(tokenizer, options.out, CONFIG["max_position_embeddings"])
    training = encode(tokenizer, [part[0] for part in parts]).to(options.device)
    held_out = encode(tokenizer, [part[1] for part in parts]).to(options.device)
    model = new_model(options.dropout).to(options.device)
    facts = {
        "texts": TRAINING_TEXTS,
        "training_bytes": sum(len(part[0].encode()) for part in parts),
        "training_tokens": len(training),
        "held_out_tokens": len(held_out),
        "parameters": sum(p.numel() for p in model.parameters()),
        "options": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in vars(options).items()
            if key not in ("data", "out")
        },
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "torch": torch.__version__,
    }
    print(facts, flush=True)
    facts.update(train(model, training, held_out, options))
    save_model(model, options.out)
    (options.out / "training.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
