"""The project's presets as transformers configurations, and models of them with random weights on a device."""

from dataclasses import dataclass, replace

from peer_records import PeerError


@dataclass(frozen=True)
class Sizes:
    """What lib/model/presets.cc says of a model; tests/tools/test_hf_bench.py compares the two."""

    family: str  # gpt2, gpt_neox, llama
    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocab: int
    max_positions: int
    activation: str
    tied: bool = False
    llama3_rope: bool = False

    @property
    def learned_positions(self) -> bool:
        return self.family == "gpt2"

    def warning(self, tokens: int):
        """Of a case that runs past the trained context; None within it."""
        if tokens <= self.max_positions:
            return None
        return (
            f"{tokens} tokens go past the model's trained context of {self.max_positions}; "
            "what it says there means little"
        )


def gpt2(layers: int, hidden: int, heads: int) -> Sizes:
    return Sizes(
        "gpt2", layers, hidden, heads, heads, hidden // heads, 4 * hidden, 50257, 1024, "gelu_new", tied=True
    )


def neox(layers: int, hidden: int, heads: int, vocab: int, max_positions: int) -> Sizes:
    return Sizes(
        "gpt_neox", layers, hidden, heads, heads, hidden // heads, 4 * hidden, vocab, max_positions, "gelu"
    )


def llama3(layers: int, hidden: int, heads: int, head_dim: int, ffn_hidden: int) -> Sizes:
    return Sizes("llama", layers, hidden, heads, 8, head_dim, ffn_hidden, 128256, 8192, "silu")


def llama3_2(layers: int, hidden: int, heads: int, head_dim: int) -> Sizes:
    base = llama3(layers, hidden, heads, head_dim, 8192)
    return replace(base, max_positions=131072, tied=True, llama3_rope=True)


_PYTHIA = {
    "14m": neox(6, 128, 4, 50304, 512),
    "31m": neox(6, 256, 8, 50304, 1024),
    "70m": neox(6, 512, 8, 50304, 2048),
    "160m": neox(12, 768, 12, 50304, 2048),
    "410m": neox(24, 1024, 16, 50304, 2048),
    "1b": neox(16, 2048, 8, 50304, 2048),
    "1.4b": neox(24, 2048, 16, 50304, 2048),
    "2.8b": neox(32, 2560, 32, 50304, 2048),
    "6.9b": neox(32, 4096, 32, 50432, 2048),
    "12b": neox(36, 5120, 40, 50688, 2048),
}

PRESETS = {
    "gpt2": gpt2(12, 768, 12),
    "gpt2-medium": gpt2(24, 1024, 16),
    "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25),
    "distilgpt2": gpt2(6, 768, 12),
    **{f"pythia-{size}{suffix}": sizes for size, sizes in _PYTHIA.items() for suffix in ("", "-deduped")},
    "gpt-neox-20b": replace(neox(44, 6144, 64, 50432, 2048), activation="gelu_fast"),
    "llama-3.2-1b": llama3_2(16, 2048, 32, 64),
    "llama-3.2-3b": llama3_2(28, 3072, 24, 128),
    "llama-3-8b": llama3(32, 4096, 32, 128, 14336),
}


def sizes_of(model: str) -> Sizes:
    if model not in PRESETS:
        near = [name for name in PRESETS if model.lower() in name] or list(PRESETS)
        raise PeerError("bad_input", f"no preset '{model}'; there are: {', '.join(near)}")
    return PRESETS[model]


def config_of(sizes: Sizes, tokens: int):
    """The configuration of a model that can take `tokens` tokens, beyond its trained context if need be."""
    from transformers import GPT2Config, GPTNeoXConfig, LlamaConfig

    if sizes.family == "gpt2":
        return GPT2Config(
            vocab_size=sizes.vocab,
            n_positions=sizes.max_positions,
            n_embd=sizes.hidden,
            n_layer=sizes.layers,
            n_head=sizes.q_heads,
            activation_function=sizes.activation,
        )
    common = {
        "vocab_size": sizes.vocab,
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.q_heads,
        "intermediate_size": sizes.ffn_hidden,
        "hidden_act": sizes.activation,
        "max_position_embeddings": max(sizes.max_positions, tokens),
        "tie_word_embeddings": sizes.tied,
    }
    if sizes.family == "gpt_neox":
        rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
        return GPTNeoXConfig(**common, rope_parameters=rope, bos_token_id=0, eos_token_id=0)
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    if sizes.llama3_rope:
        rope.update(
            rope_type="llama3",
            factor=32.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        )
    return LlamaConfig(
        **common,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        rms_norm_eps=1e-5,
        rope_parameters=rope,
        bos_token_id=128000,
        eos_token_id=128001,
    )


def random_model(sizes: Sizes, tokens: int, device, dtype, seed: int):
    """A model in evaluation mode whose weights are drawn on the device, in its own initial distribution."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config_of(sizes, tokens), dtype=dtype)
    model.eval().requires_grad_(False)
    strays = {str(p.device) for p in model.parameters() if p.device != torch.device(device)}
    kinds = {str(p.dtype) for p in model.parameters() if p.dtype != dtype}
    if strays or kinds:
        raise PeerError("internal", f"weights are not all {dtype} on {device}: {sorted(strays | kinds)}")
    return model


def decode_step_bytes(model, sizes: Sizes, batch: int, kv_len: float) -> float:
    """As apps/attnbench/record_case.cc: all matrices and the head once, and the cached keys and values."""
    first = next(model.parameters())
    embedding = sizes.vocab * sizes.hidden
    positions = sizes.max_positions * sizes.hidden if sizes.learned_positions else 0
    weights = sum(p.numel() for p in model.parameters()) - embedding - positions
    weights += embedding if sizes.tied else 0
    cache = 2.0 * sizes.layers * sizes.kv_heads * sizes.head_dim * kv_len * batch
    return (weights + cache) * first.element_size()
