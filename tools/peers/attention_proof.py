"""Proves which attention a torch call ran: by the operators that were dispatched. Needs torch."""

import warnings

import torch
from torch.nn.attention import SDPBackend

from peer_records import PeerError


def attention_operators(call) -> str:
    """The fused attention operators that a call ran; empty if there was none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the profiler, about cycles that there are not
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            call()
    names = {event.key.removeprefix("aten::") for event in profile.key_averages()}
    # The private names are those of one backend each; the public one chooses among them.
    return "+".join(sorted(name for name in names if name.startswith("_scaled_dot_product")))


# The operator's name that proves a backend; on the CPU flash has a name of its own.
_PROOF = {
    SDPBackend.FLASH_ATTENTION: (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    ),
    SDPBackend.EFFICIENT_ATTENTION: ("_scaled_dot_product_efficient_attention",),
    SDPBackend.CUDNN_ATTENTION: ("_scaled_dot_product_cudnn_attention",),
    SDPBackend.MATH: ("_scaled_dot_product_attention_math",),
}


def require_operators(found: str, backend, where: str) -> str:
    """The name for the record; Error where another kernel ran than the mode claims."""
    if backend is None:
        if found:
            raise PeerError("unsupported", f"{where}: eager attention ran {found}")
        return "matmul+softmax+matmul"
    if found not in _PROOF[backend]:
        raise PeerError("unsupported", f"{where}: {backend.name} was asked for, but {found or 'no SDPA'} ran")
    return found
