"""Attention calls of each mode: their inputs, the proof of what ran, their error, their time. Needs torch."""

import math
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from attention_proof import attention_operators, require_operators
from op_problem import Problem

BACKENDS = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-math": "MATH",
}

WINDOW_MS = 1.0  # between two events
COMPARED_ROWS = 32  # queries in each of the blocks at the beginning, the middle and the end


class Inputs:
    """Random tensors: q [batch, q_heads, q_len, dim] laid out token by token, as a projection leaves it; k and v
    [batch, kv_heads, kv_len, dim] laid out head by head, as a cache. `copies` sets of them."""

    def __init__(self, problem: Problem, copies: int, device, dtype, seed: int):
        generator = torch.Generator(device).manual_seed(seed)

        def draw(*shape):
            return torch.randn(shape, generator=generator, device=device, dtype=dtype)

        p = problem
        self.sets = [
            (
                draw(p.batch, p.q_len, p.q_heads, p.head_dim).transpose(1, 2),
                draw(p.batch, p.kv_heads, p.kv_len, p.head_dim),
                draw(p.batch, p.kv_heads, p.kv_len, p.head_dim),
            )
            for _ in range(copies)
        ]


def causal_mask(problem: Problem, device):
    """[q_len, kv_len], True where a query sees a key: bottom-right."""
    mask = torch.ones((problem.q_len, problem.kv_len), dtype=torch.bool, device=device)
    return mask.tril(problem.kv_len - problem.q_len)


def make_call(mode: str, problem: Problem, device, dtype):
    """A function (q, k, v) -> output [batch, q_heads, q_len, dim]."""
    groups = problem.q_heads // problem.kv_heads
    scale = problem.head_dim**-0.5
    if mode == "torch-eager":
        # Additive and always there, as transformers makes it once for all layers.
        seen = (
            causal_mask(problem, device)
            if problem.causal
            else torch.ones((1, 1), dtype=torch.bool, device=device)
        )
        mask = torch.zeros(seen.shape, device=device, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
        mask = mask.expand(problem.q_len, problem.kv_len)[None, None]
        del seen

        def repeated(x):
            if groups == 1:
                return x
            b, h, n, d = x.shape
            return x[:, :, None].expand(b, h, groups, n, d).reshape(b, h * groups, n, d)

        def eager(q, k, v):
            weights = torch.matmul(q, repeated(k).transpose(2, 3)) * scale
            weights = weights + mask
            weights = torch.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
            return torch.matmul(weights, repeated(v)).transpose(1, 2).contiguous().transpose(1, 2)

        return eager

    # One query sees every key; with as many queries as keys, torch's top-left rule is the bottom-right one.
    square = problem.q_len == problem.kv_len
    bias = None
    if problem.causal and not square and problem.q_len > 1:
        bias = causal_lower_right(problem.q_len, problem.kv_len)
    arguments = {
        "attn_mask": bias,
        "is_causal": problem.causal and square and problem.q_len > 1,
        "scale": scale,
    }
    if groups > 1:
        arguments["enable_gqa"] = True
    backend = getattr(SDPBackend, BACKENDS[mode])

    def fused(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **arguments)

    return fused


def kernel_of(mode: str, call, inputs: tuple) -> str:
    """The operator that ran, for the record; Error where it is not the mode's."""
    found = attention_operators(lambda: call(*inputs))
    return require_operators(found, getattr(SDPBackend, BACKENDS[mode]) if mode in BACKENDS else None, mode)


def error_of(problem: Problem, inputs: tuple, out) -> dict:
    """Against softmax in float64, over blocks of queries of the first and the last sequence, all heads."""
    q, k, v = inputs
    rows = min(problem.q_len, COMPARED_ROWS)
    blocks = sorted({0, (problem.q_len - rows) // 2, problem.q_len - rows})
    groups = problem.q_heads // problem.kv_heads
    largest = squares = reference_squares = compared = 0
    finite = bool(torch.isfinite(out).all())
    for sequence in sorted({0, problem.batch - 1}):
        for head in range(problem.q_heads):
            keys, values = k[sequence, head // groups].double(), v[sequence, head // groups].double()
            taken = torch.cat([torch.arange(begin, begin + rows) for begin in blocks]).unique().to(q.device)
            scores = q[sequence, head, taken].double() @ keys.T * problem.head_dim**-0.5
            if problem.causal:
                last = taken[:, None] + problem.kv_len - problem.q_len
                scores = scores.masked_fill(
                    torch.arange(problem.kv_len, device=q.device)[None] > last, -math.inf
                )
            # A query that sees no key has no softmax; ours is zero there.
            reference = torch.softmax(scores, -1).nan_to_num(0.0) @ values
            difference = out[sequence, head, taken].double() - reference
            largest = max(largest, float(difference.abs().max()))
            squares += float(difference.square().sum())
            reference_squares += float(reference.square().sum())
            compared += len(taken)
    return {
        "finite": finite and math.isfinite(largest),
        "max_abs_error": largest,
        "relative_error": math.sqrt(squares / reference_squares) if reference_squares else math.sqrt(squares),
        "rows_compared": compared,
    }


class GpuTimer:
    """Calls over all sets of tensors in turn, between two events. From a CUDA graph (unless asked otherwise) where a
    call is so short that the host could not keep up; longer ones need none, and cuBLAS's workspaces, which a graph
    would own, stay out of it."""

    GRAPH_BELOW_MS = 0.1  # of a call

    def __init__(self, call, sets: list, device, graph: bool):
        self.device, self.calls = device, len(sets)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

        def run():
            for inputs in sets:
                call(*inputs)

        self.run, self.graph, self.how = run, None, "calls from the host"
        self.passes = 1
        once = min(self._window() for _ in range(2))
        if graph and once / self.calls < self.GRAPH_BELOW_MS:
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                call(*sets[0])  # set-up that a capture does not allow
            torch.cuda.current_stream(device).wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                run()
            self.recorded = run  # the graph reads tensors that the calls hold, a mask among them
            self.run, self.how = self.graph.replay, "CUDA graph"
            once = min(self._window() for _ in range(2))
        self.passes = max(1, math.ceil(WINDOW_MS / max(once, 1e-3)))

    def _window(self) -> float:
        torch.cuda.synchronize(self.device)
        self.events[0].record()
        for _ in range(self.passes):
            self.run()
        self.events[1].record()
        torch.cuda.synchronize(self.device)
        return self.events[0].elapsed_time(self.events[1])

    def time_ms(self) -> float:
        return self._window() / (self.passes * self.calls)


class CpuTimer:
    def __init__(self, call, sets: list, device, graph: bool):
        self.call, self.sets, self.how, self.passes = call, sets, "calls from the host", 1
        self.calls = len(sets)
        self.passes = max(1, math.ceil(WINDOW_MS / max(self.time_ms() * self.calls, 1e-3)))

    def time_ms(self) -> float:
        begin = time.perf_counter()
        for _ in range(self.passes):
            for inputs in self.sets:
                self.call(*inputs)
        return (time.perf_counter() - begin) * 1e3 / (self.passes * self.calls)
