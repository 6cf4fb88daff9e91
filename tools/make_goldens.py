#!/usr/bin/env python3
# Makes tests/goldens: tiny random models with the logits that Hugging Face transformers computes for them.
"""usage: tools/make_goldens.py [--out DIR] [--only NAME]     needs torch, transformers, safetensors

For each case of golden_cases.py: writes config.json, draws weights, stores them, loads that very folder with
AutoModelForCausalLM in float64, and writes reference.json. Three places where transformers goes down to
float32 are computed in float64 instead (softmax: the sdpa path; RMSNorm and rotary angles: replaced below);
the inverse frequencies themselves stay the float32 numbers that transformers uses.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from golden_cases import CASES, GoldenCase

SEQUENCE_LENGTHS = (24, 40)
PROMPT_LENGTH = 8
GREEDY_TOKENS = 20
MIN_GREEDY_MARGIN = 1e-3  # top-1 minus top-2, over the largest logit: below it float32 may choose otherwise
MIN_CONTRAST = 3e-4  # three times the tolerance of the test that reads these files
STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Rejected(Exception):
    """This seed gives an unsuitable model: try the next."""


def rms_norm_float64(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


def rotary_float64(self, x, position_ids):
    angles = position_ids[:, :, None].double() * self.inv_freq.double()
    angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * self.attention_scaling).to(x.dtype), (angles.sin() * self.attention_scaling).to(
        x.dtype
    )


PATCHES = [
    (LlamaRMSNorm, rms_norm_float64),
    (LlamaRotaryEmbedding, rotary_float64),
    (GPTNeoXRotaryEmbedding, rotary_float64),
]


def fan_in(name: str, shape: torch.Size, family: str) -> int:
    is_conv1d = family == "gpt2" and ".c_" in name  # GPT-2 stores these [in, out]
    return shape[0] if is_conv1d else shape[1]


def draw_weights(config_dir: Path, family: str, seed: int) -> dict:
    """Large, uneven weights: attention far from uniform, logits units apart, no bias and no norm trivial."""
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config_dir))
    generator = torch.Generator().manual_seed(seed)
    tied = set(model._tied_weights_keys or {}) if model.config.tie_word_embeddings else set()
    weights = {}
    for name, tensor in model.state_dict().items():
        if name in tied:
            continue
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        is_norm = "ln_" in name or "norm" in name
        if name.endswith("bias"):
            value = 0.3 * noise
        elif is_norm:
            value = 1.0 + 0.3 * noise
        elif "wte" in name or "wpe" in name or "embed_in" in name or "embed_tokens" in name:
            value = 0.6 * noise
        else:
            value = 1.5 / fan_in(name, tensor.shape, family) ** 0.5 * noise
        weights[name] = value
    return weights


def registered_buffers(case: GoldenCase) -> dict:
    """Tensors that older versions of transformers stored beside the weights; they carry nothing."""
    config = case.config
    buffers = {}
    if case.family == "gpt2":
        n = config["n_positions"]
        for layer in range(config["n_layer"]):
            buffers[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(n, n)).view(1, 1, n, n)
            buffers[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    else:
        n = config["max_position_embeddings"]
        rotary = int(config["hidden_size"] // config["num_attention_heads"] * config["rotary_pct"])
        inv_freq = 1.0 / (config["rotary_emb_base"] ** (torch.arange(0, rotary, 2).float() / rotary))
        for layer in range(config["num_hidden_layers"]):
            base = f"gpt_neox.layers.{layer}.attention"
            buffers[f"{base}.bias"] = torch.tril(torch.ones(n, n, dtype=torch.uint8)).view(1, 1, n, n)
            buffers[f"{base}.masked_bias"] = torch.tensor(-1e9).clamp(min=-65504).half()
            buffers[f"{base}.rotary_emb.inv_freq"] = inv_freq.clone()
    return buffers


def store(case: GoldenCase, weights: dict, folder: Path) -> None:
    tensors = {
        name.removeprefix(case.strip_prefix): value.to(STORED[case.dtype]).contiguous()
        for name, value in weights.items()
    }
    if case.buffers:
        tensors.update(registered_buffers(case))
    metadata = {"format": "pt"}
    if case.shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata=metadata)
        return
    weight_map = {}
    names = sorted(tensors)
    for shard in range(case.shards):
        file = f"model-{shard + 1:05}-of-{case.shards:05}.safetensors"
        part = {name: tensors[name] for name in names[shard :: case.shards]}
        save_file(part, folder / file, metadata=metadata)
        weight_map.update({name: file for name in part})
    total = sum(value.numel() * value.element_size() for value in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def load(folder: Path, case: GoldenCase, strict: bool = True):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="sdpa", output_loading_info=True
    )
    surplus = [
        name
        for name in info["unexpected_keys"]
        if not name.endswith(("attn.bias", "attention.bias"))
        and not name.endswith(("masked_bias", "inv_freq"))
    ]
    if strict and (info["missing_keys"] or info["mismatched_keys"] or surplus):
        sys.exit(f"{case.name}: transformers does not load this folder as meant: {info}")
    return model.eval()


def logits_of(model, ids: list) -> torch.Tensor:
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    return logits


def greedy(model, prompt: list, count: int) -> tuple:
    """Continuation with the KV cache, and the smallest relative distance of the two best logits."""
    ids, cache, feed, margin = [], None, prompt, float("inf")
    for _ in range(count):
        out = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
        cache, last = out.past_key_values, out.logits[0, -1]
        top = last.topk(2).values
        margin = min(margin, float((top[0] - top[1]) / last.abs().max()))
        feed = [int(last.argmax())]
        ids += feed
    return ids, margin


def rounded(values) -> list:
    """9 significant digits."""
    return [float(f"{value:.9g}") for value in values]


def reference(case: GoldenCase, folder: Path, seed: int) -> dict:
    plain = load(folder, case)
    generator = torch.Generator().manual_seed(1000 + seed)
    vocab = case.config["vocab_size"]
    ids = [torch.randint(vocab, (length,), generator=generator).tolist() for length in SEQUENCE_LENGTHS]
    prompt = torch.randint(vocab, (PROMPT_LENGTH,), generator=generator).tolist()
    with torch.no_grad():
        float32_inside = logits_of(plain, ids[1])
        originals = [(cls, cls.forward) for cls, _ in PATCHES]
        for cls, forward in PATCHES:
            cls.forward = forward
        try:
            model = load(folder, case)
            logits = [logits_of(model, sequence) for sequence in ids]
            continuation, margin = greedy(model, prompt, GREEDY_TOKENS)
            full = logits_of(model, prompt + continuation)
        finally:
            for cls, forward in originals:
                cls.forward = forward
        scale = float(max(part.abs().max() for part in logits))
        difference = float((float32_inside - logits[1]).abs().max()) / scale
        if difference > 1e-5:
            sys.exit(
                f"{case.name}: the float64 replacements change the logits by {difference:.1e} of their scale"
            )
        if full[PROMPT_LENGTH - 1 : -1].argmax(-1).tolist() != continuation:
            sys.exit(f"{case.name}: greedy with and without cache differ")
        if margin < MIN_GREEDY_MARGIN or len(set(continuation)) < 3:
            raise Rejected(f"greedy margin {margin:.1e}, {len(set(continuation))} different ids")
        contrast = contrast_of(case, folder, ids[1], logits[1], scale)
    nll = [
        -torch.log_softmax(part[:-1], -1).gather(1, torch.tensor(sequence[1:])[:, None])[:, 0]
        for part, sequence in zip(logits, ids)
    ]
    return {
        "note": "logits: every position of ids[0]; logits_last: the last position of ids[1]; nll[s][i] = "
        "-log p(ids[s][i+1] | ids[s][0..i]); float64, from the stored weights",
        "seed": seed,
        "ids": ids,
        "nll": [rounded(part.tolist()) for part in nll],
        "logit_scale": float(f"{scale:.6g}"),
        "contrast": contrast,
        "greedy": {"prompt": prompt, "ids": continuation, "min_margin": float(f"{margin:.3g}")},
        "logits": [rounded(row) for row in logits[0].tolist()],
        "logits_last": rounded(logits[1][-1].tolist()),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def contrast_of(case: GoldenCase, folder: Path, ids: list, logits: torch.Tensor, scale: float):
    """How far the logits move, over their scale, when the variant is switched off: must be visible."""
    if case.contrast is None:
        return None
    with tempfile.TemporaryDirectory() as other:
        for file in folder.glob("model*"):
            shutil.copy(file, other)
        changed = {**case.config, **case.contrast}
        (Path(other) / "config.json").write_text(json.dumps(changed))
        moved = float((logits_of(load(Path(other), case, strict=False), ids) - logits).abs().max()) / scale
    if moved < MIN_CONTRAST:
        raise Rejected(f"{case.contrast} moves the logits by {moved:.1e} only")
    return {"config": case.contrast, "moves_logits_by": float(f"{moved:.3g}")}


def write_reference(data: dict, file: Path) -> None:
    """One line a key, so that a diff of the file can be read."""
    lines = [f" {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in data.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make(case: GoldenCase, out: Path, made: dict) -> None:
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(case.config, indent=2, sort_keys=True) + "\n")
    seeds = [made[case.twin][1]] if case.twin else range(case.seed, case.seed + 40)
    for seed in seeds:
        weights = made[case.twin][0] if case.twin else draw_weights(folder, case.family, seed)
        store(case, weights, folder)
        try:
            data = reference(case, folder, seed)
        except Rejected as reason:
            print(f"{case.name}: seed {seed} rejected: {reason}")
            continue
        if case.twin and data["logits"] != made[case.twin][2]:
            sys.exit(f"{case.name}: not the same logits as {case.twin}")
        made[case.name] = (weights, seed, data["logits"])
        write_reference(data, folder / "reference.json")
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(
            f"{case.name}: seed {seed}, {size / 1024:.0f} KiB, logits to {data['logit_scale']:.1f}, margin "
            f"{data['greedy']['min_margin']:.1e}, contrast "
            f"{data['contrast'] and data['contrast']['moves_logits_by']}"
        )
        return
    sys.exit(f"{case.name}: no suitable seed")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the golden models of tests/goldens.")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / "goldens"
    )
    parser.add_argument("--only", help="this case alone (and its twin); index.json is left as it is")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # the order of sums does not depend on the machine's cores
    wanted = [case for case in CASES if not options.only or options.only == case.name]
    twins = {case.twin for case in wanted}
    made: dict = {}
    for case in CASES:
        if case in wanted or case.name in twins:
            make(case, options.out, made)
    if not options.only:
        index = [{"name": case.name, "family": case.family, "point": case.point} for case in CASES]
        rows = ",\n".join(" " + json.dumps(row) for row in index)
        (options.out / "index.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
