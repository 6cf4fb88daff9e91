# The list of golden models: one row for each config variant that must load and compute right.
"""Data only; tools/make_goldens.py turns each row into a folder under tests/goldens.

A row's `config` is config.json as the hub's files spell it; what it leaves out tests the family's default.
`contrast` is a change of the config after which the logits must differ clearly, so that the golden would
catch a reader that ignores the variant. None: no such change exists for the same tensors.
"""

from dataclasses import dataclass


@dataclass
class GoldenCase:
    name: str
    family: str
    point: str  # what this golden checks, for index.json
    config: dict
    contrast: dict | None = None
    dtype: str = "F32"  # of the stored weights: F32, F16, BF16
    shards: int = 1
    strip_prefix: str = ""  # removed from the tensor names, as the hub's first gpt2 files have them
    buffers: bool = False  # adds the registered buffers that old checkpoints carry
    twin: str = ""  # takes the weights of this earlier case: the same model, spelled differently
    seed: int = 1  # the first to try


def without(config: dict, *keys: str) -> dict:
    return {key: value for key, value in config.items() if key not in keys}


GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "attn_pdrop": 0.1,
    "bos_token_id": 0,
    "embd_pdrop": 0.1,
    "eos_token_id": 0,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "n_ctx": 48,
    "n_embd": 16,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 48,
    "resid_pdrop": 0.1,
    "torch_dtype": "float32",
    "vocab_size": 42,
}

GPT2_SMALL = {**GPT2, "n_inner": 32}  # for the rows whose point is elsewhere: half the bytes

NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 40,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 44,
}

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 43,
}

# Two wide heads, so that the four frequencies (wave lengths 6.3, 63, 628, 6283) meet all three cases of
# llama3 scaling: kept (below 64/4 positions), blended, divided (above 64/1).
LLAMA_WIDE = {**LLAMA, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
LLAMA3_SCALING = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
}
NO_SCALING = {"rope_scaling": None}

ACTIVATIONS_GPT2 = ["gelu", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu"]
ACTIVATIONS_NEOX = ["gelu_new", "gelu_fast", "relu"]

CASES = [
    # GPT-2: learned positions, fused QKV stored [in, out], tied embeddings by default.
    GoldenCase(
        "gpt2-default",
        "gpt2",
        "every default: gelu_new, tied embeddings, scaled attention",
        GPT2,
        contrast={"activation_function": "gelu"},
    ),
    GoldenCase("gpt2-n-inner", "gpt2", "n_inner set: the MLP is not 4 x n_embd", {**GPT2, "n_inner": 40}),
    GoldenCase(
        "gpt2-no-scale",
        "gpt2",
        "scale_attn_weights false: scores are not divided by sqrt(head_dim)",
        {**GPT2_SMALL, "scale_attn_weights": False},
        contrast={"scale_attn_weights": True},
    ),
    GoldenCase(
        "gpt2-inverse-layer-idx",
        "gpt2",
        "scale_attn_by_inverse_layer_idx true: scores of layer i / (i + 1)",
        {**GPT2_SMALL, "n_layer": 3, "scale_attn_by_inverse_layer_idx": True},
        contrast={"scale_attn_by_inverse_layer_idx": False},
    ),
    GoldenCase(
        "gpt2-untied",
        "gpt2",
        "tie_word_embeddings false: lm_head.weight is its own tensor",
        {**GPT2_SMALL, "tie_word_embeddings": False},
    ),
    *[
        GoldenCase(
            f"gpt2-act-{name.replace('_', '-')}",
            "gpt2",
            f"activation_function {name}",
            {**GPT2_SMALL, "activation_function": name},
            contrast={"activation_function": "gelu_new" if name == "gelu" else "gelu"},
        )
        for name in ACTIVATIONS_GPT2
    ],
    GoldenCase(
        "gpt2-no-prefix-buffers",
        "gpt2",
        "tensor names without 'transformer.', and the mask buffers h.*.attn.bias and masked_bias",
        GPT2_SMALL,
        strip_prefix="transformer.",
        buffers=True,
    ),
    # GPT-NeoX: partial rotary, QKV interleaved by head, parallel residual, untied by default.
    GoldenCase(
        "neox-default",
        "gpt_neox",
        "every default: old spelling, rotary_pct 0.25, parallel residual, biases",
        NEOX,
        contrast={"rotary_pct": 0.5},
    ),
    GoldenCase(
        "neox-new-spelling",
        "gpt_neox",
        "neox-default's model with rope_parameters and dtype",
        {
            **without(NEOX, "rotary_pct", "rotary_emb_base", "torch_dtype"),
            "dtype": "float32",
            "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 10000, "rope_type": "default"},
        },
        twin="neox-default",
    ),
    GoldenCase(
        "neox-sequential",
        "gpt_neox",
        "use_parallel_residual false",
        {**NEOX, "use_parallel_residual": False},
        contrast={"use_parallel_residual": True},
    ),
    GoldenCase(
        "neox-no-attention-bias",
        "gpt_neox",
        "attention_bias false: no bias in QKV and dense; the MLP keeps its",
        {**NEOX, "attention_bias": False},
    ),
    GoldenCase(
        "neox-rotary-full",
        "gpt_neox",
        "rotary_pct 1.0 and rotary_emb_base 500",
        {**NEOX, "rotary_pct": 1.0, "rotary_emb_base": 500},
        contrast={"rotary_emb_base": 10000},
    ),
    GoldenCase(
        "neox-rotary-full-new-spelling",
        "gpt_neox",
        "neox-rotary-full's model with rope_parameters",
        {
            **without(NEOX, "rotary_pct", "rotary_emb_base"),
            "rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 500.0, "rope_type": "default"},
        },
        twin="neox-rotary-full",
    ),
    GoldenCase(
        "neox-tied",
        "gpt_neox",
        "tie_word_embeddings true: no embed_out.weight in the file",
        {**NEOX, "tie_word_embeddings": True},
    ),
    *[
        GoldenCase(
            f"neox-act-{name.replace('_', '-')}",
            "gpt_neox",
            f"hidden_act {name}",
            {**NEOX, "hidden_act": name},
            contrast={"hidden_act": "gelu"},
        )
        for name in ACTIVATIONS_NEOX
    ],
    GoldenCase(
        "neox-buffers",
        "gpt_neox",
        "the buffers attention.bias (U8), attention.masked_bias (F16 scalar), attention.rotary_emb.inv_freq",
        NEOX,
        buffers=True,
    ),
    # LLaMA: RMSNorm, full rotary, gated MLP, grouped key and value heads, untied by default.
    GoldenCase(
        "llama-gqa",
        "llama",
        "4 query heads on 2 key and value heads, rms_norm_eps 1e-5",
        LLAMA,
        contrast={"rope_theta": 500.0},
    ),
    GoldenCase(
        "llama-mha",
        "llama",
        "no num_key_value_heads, rope_theta or rms_norm_eps in the config: the defaults",
        without(LLAMA, "num_key_value_heads", "rope_theta", "rms_norm_eps"),
        contrast={"rope_theta": 500.0},
    ),
    GoldenCase(
        "llama-mqa", "llama", "one key and value head for 4 query heads", {**LLAMA, "num_key_value_heads": 1}
    ),
    GoldenCase(
        "llama-new-spelling",
        "llama",
        "llama-gqa's model with rope_parameters and dtype",
        {
            **without(LLAMA, "rope_theta", "torch_dtype"),
            "dtype": "float32",
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        twin="llama-gqa",
    ),
    GoldenCase(
        "llama-rope-llama3",
        "llama",
        "llama3 scaling as rope_scaling with rope_type",
        {**LLAMA_WIDE, "rope_scaling": {**LLAMA3_SCALING, "rope_type": "llama3"}},
        contrast=NO_SCALING,
    ),
    GoldenCase(
        "llama-rope-llama3-type",
        "llama",
        "llama-rope-llama3's model, rope_scaling with type",
        {**LLAMA_WIDE, "rope_scaling": {**LLAMA3_SCALING, "type": "llama3"}},
        contrast=NO_SCALING,
        twin="llama-rope-llama3",
    ),
    GoldenCase(
        "llama-rope-llama3-new-spelling",
        "llama",
        "llama-rope-llama3's model, scaling in rope_parameters",
        {
            **without(LLAMA_WIDE, "rope_theta"),
            "rope_parameters": {**LLAMA3_SCALING, "rope_theta": 10000.0, "rope_type": "llama3"},
        },
        twin="llama-rope-llama3",
    ),
    GoldenCase(
        "llama-rope-linear",
        "llama",
        "linear scaling, factor 4, as rope_scaling with type",
        {**LLAMA_WIDE, "rope_scaling": {"type": "linear", "factor": 4.0}},
        contrast=NO_SCALING,
    ),
    GoldenCase(
        "llama-rope-linear-new-spelling",
        "llama",
        "llama-rope-linear's model, scaling in rope_parameters",
        {
            **without(LLAMA_WIDE, "rope_theta"),
            "rope_parameters": {"factor": 4.0, "rope_theta": 10000.0, "rope_type": "linear"},
        },
        twin="llama-rope-linear",
    ),
    GoldenCase(
        "llama-attention-bias",
        "llama",
        "attention_bias true: biases of q, k, v and o",
        {**LLAMA, "attention_bias": True},
    ),
    GoldenCase(
        "llama-mlp-bias", "llama", "mlp_bias true: biases of gate, up and down", {**LLAMA, "mlp_bias": True}
    ),
    GoldenCase("llama-head-dim", "llama", "head_dim 6, not hidden_size / heads", {**LLAMA, "head_dim": 6}),
    GoldenCase(
        "llama-tied",
        "llama",
        "tie_word_embeddings true: no lm_head.weight in the file",
        {**LLAMA, "tie_word_embeddings": True},
    ),
    GoldenCase(
        "llama-untied",
        "llama",
        "tie_word_embeddings false, written out",
        {**LLAMA, "tie_word_embeddings": False},
        seed=2,
    ),
    GoldenCase(
        "llama-act-gelu",
        "llama",
        "hidden_act gelu in the gated MLP",
        {**LLAMA, "hidden_act": "gelu"},
        contrast={"hidden_act": "silu"},
    ),
    # Storage.
    GoldenCase(
        "storage-f16", "gpt_neox", "weights stored as F16", {**NEOX, "torch_dtype": "float16"}, dtype="F16"
    ),
    GoldenCase(
        "storage-bf16", "llama", "weights stored as BF16", {**LLAMA, "torch_dtype": "bfloat16"}, dtype="BF16"
    ),
    GoldenCase("storage-sharded", "llama", "three shards and model.safetensors.index.json", LLAMA, shards=3),
]
