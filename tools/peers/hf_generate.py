"""Greedy generation by transformers in each peer mode, timed token by token. Needs torch and transformers."""

import contextlib
import gc
import time
from dataclasses import dataclass, field

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import DynamicCache, StaticCache

from attention_proof import attention_operators, require_operators
from peer_records import PeerError

# Capacity of a static cache: a mask row whose length is a multiple of 8 needs no padded copy in any kernel.
CACHE_MULTIPLE = 8
# Calls of the compiled step before anything is timed: compile and warm up, record the CUDA graph, replay twice.
COMPILE_CALLS = 4


@dataclass(frozen=True)
class Mode:
    implementation: str  # of transformers
    prefill: object  # SDPBackend, or None where no SDPA is called
    decode: object = None  # SDPBackend, or None for PyTorch's own choice; the uncompiled modes use `prefill`
    compiled: bool = False


MODES = {
    "hf-eager": Mode("eager", None),
    "hf-sdpa-flash": Mode("sdpa", SDPBackend.FLASH_ATTENTION),
    "hf-sdpa-math": Mode("sdpa", SDPBackend.MATH),
    "hf-compiled": Mode("sdpa", SDPBackend.FLASH_ATTENTION, None, True),
    "hf-compiled-efficient": Mode("sdpa", SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, True),
    "hf-compiled-cudnn": Mode("sdpa", SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, True),
    "hf-compiled-math": Mode("sdpa", SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, True),
}


@dataclass
class ModeRun:
    """What one mode gave in one case."""

    token_ms: list = field(default_factory=list)  # [repetition][token] since the call
    wall_ms: list = field(
        default_factory=list
    )  # [repetition] by the host's clock, after the last id is there
    cold_token_ms: list = field(default_factory=list)
    ids: list = field(default_factory=list)  # [sequence][token] of the cold run
    finite: bool = True
    compile_s: object = None
    prefill_kernel: str = ""
    decode_kernel: str = ""
    peak_bytes: object = None
    peak_reserved_bytes: object = None
    weights_bytes: int = 0


class CudaClock:
    """Events on the stream, so that a mark costs no synchronisation."""

    def __init__(self, device, marks: int):
        self.device = device
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(marks + 1)]

    def start(self) -> None:
        torch.cuda.synchronize(self.device)
        self.wall = time.perf_counter()
        self.events[0].record()

    def mark(self, index: int) -> None:
        self.events[index + 1].record()

    def finish(self) -> tuple:
        torch.cuda.synchronize(self.device)
        wall_ms = (time.perf_counter() - self.wall) * 1e3
        return [self.events[0].elapsed_time(event) for event in self.events[1:]], wall_ms


class HostClock:
    def __init__(self, device, marks: int):
        self.stamps = [0.0] * marks

    def start(self) -> None:
        self.begin = time.perf_counter()

    def mark(self, index: int) -> None:
        self.stamps[index] = (time.perf_counter() - self.begin) * 1e3

    def finish(self) -> tuple:
        return list(self.stamps), self.stamps[-1]


def backend_context(backend):
    return contextlib.nullcontext() if backend is None else sdpa_kernel(backend)


class EagerGenerator:
    """transformers' forward as it is, one call a token, with its growing cache."""

    def __init__(self, model, mode: Mode, prompt, new_tokens: int):
        self.model, self.mode, self.prompt, self.new_tokens = model, mode, prompt, new_tokens
        pin = prompt.is_pinned()
        self.first_host = torch.empty((prompt.shape[0], 1), dtype=torch.int64, pin_memory=pin)
        self.ids_host = torch.empty((prompt.shape[0], new_tokens), dtype=torch.int64, pin_memory=pin)
        self.last_logits = None

    def prepare(self, run: ModeRun) -> None:
        """Proves which attention runs; nothing to compile."""
        state = {}

        def prefill():
            state["cache"] = DynamicCache(config=self.model.config)
            state["next"] = self.step(self.prompt.to(self.model.device), state["cache"])[0]

        with torch.inference_mode(), backend_context(self.mode.prefill):
            run.prefill_kernel = require_operators(attention_operators(prefill), self.mode.prefill, "prefill")
            if self.new_tokens > 1:
                decode = attention_operators(lambda: self.step(state["next"], state["cache"]))
                run.decode_kernel = require_operators(decode, self.mode.prefill, "decode")

    def step(self, ids, cache) -> tuple:
        logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        return logits[:, -1].argmax(-1, keepdim=True), logits

    def generate(self, clock) -> tuple:
        last = self.new_tokens - 1
        with torch.inference_mode(), backend_context(self.mode.prefill):
            clock.start()
            cache = DynamicCache(config=self.model.config)
            ids, logits = self.step(self.prompt.to(self.model.device, non_blocking=True), cache)
            chosen = [ids]
            if last > 0:
                self.first_host.copy_(ids, non_blocking=True)
                clock.mark(0)
            for index in range(1, self.new_tokens):
                ids, logits = self.step(ids, cache)
                chosen.append(ids)
                if index < last:
                    clock.mark(index)
            self.ids_host.copy_(torch.cat(chosen, 1), non_blocking=True)
            clock.mark(last)
            self.last_logits = logits
            return clock.finish()


class CompiledGenerator:
    """transformers' static cache; prefill as it is, the decode step compiled into one CUDA graph."""

    def __init__(self, model, mode: Mode, prompt, new_tokens: int, sizes):
        batch, self.prompt_tokens = prompt.shape
        self.model, self.mode, self.prompt, self.new_tokens = model, mode, prompt, new_tokens
        pin = prompt.is_pinned()
        self.first_host = torch.empty((batch, 1), dtype=torch.int64, pin_memory=pin)
        self.ids_host = torch.empty((batch, new_tokens), dtype=torch.int64, pin_memory=pin)
        self.last_logits, self.compiled_frames = None, 0
        capacity = -(-(self.prompt_tokens + new_tokens) // CACHE_MULTIPLE) * CACHE_MULTIPLE
        with torch.no_grad():  # no inference tensors: what is compiled writes to these
            self.cache = StaticCache(config=model.config, max_cache_len=capacity)
            self.cache.early_initialization(batch, sizes.kv_heads, sizes.head_dim, model.dtype, model.device)
            self.ids = torch.zeros((batch, 1), dtype=torch.int64, device=model.device)
            self.history = torch.zeros((batch, new_tokens), dtype=torch.int64, device=model.device)
            self.slot = torch.zeros(1, dtype=torch.int64, device=model.device)
        for tensor in (self.ids, self.history, self.slot):
            torch._dynamo.mark_static_address(tensor)
        self.decode = torch.compile(
            self._decode_function(), mode="reduce-overhead", fullgraph=True, dynamic=False
        )

    def _decode_function(self):
        model, cache, ids, history, slot = self.model, self.cache, self.ids, self.history, self.slot

        def decode_step():
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            following = logits[:, -1].argmax(-1, keepdim=True)
            ids.copy_(following)
            history.index_copy_(1, slot, following)
            slot.add_(1)
            return logits

        return decode_step

    def call_decode(self):
        torch.compiler.cudagraph_mark_step_begin()
        return self.decode()

    def prefill(self) -> None:
        with torch.inference_mode(), backend_context(self.mode.prefill):
            prompt = self.prompt.to(self.model.device, non_blocking=True)
            logits = self.model(
                input_ids=prompt, past_key_values=self.cache, use_cache=True, logits_to_keep=1
            ).logits
            following = logits[:, -1].argmax(-1, keepdim=True)
            self.ids.copy_(following)
            self.history[:, :1].copy_(following)
            self.slot.fill_(1)
            self.last_logits = logits

    def rewind(self) -> None:
        """As after the prefill."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.prompt_tokens)
        self.slot.fill_(1)

    def prepare(self, run: ModeRun) -> None:
        from torch._dynamo.utils import counters

        with torch.no_grad():
            found = attention_operators(self.prefill)
            run.prefill_kernel = require_operators(found, self.mode.prefill, "prefill")
            if self.new_tokens == 1:
                return
            counters.clear()
            begin = time.perf_counter()
            # That cache knows a graph before SDPA's choice of a kernel: it would hand a mode another mode's code.
            uncached = torch._functorch.config.patch(enable_autograd_cache=False)
            with backend_context(self.mode.decode), uncached:
                self.call_decode()
                self.rewind()
                # Recording a graph, like the run of its warm-up, still calls each operator from the host.
                found = attention_operators(self.call_decode)
                for _ in range(COMPILE_CALLS - 2):
                    self.rewind()
                    self.call_decode()
            if self.model.device.type == "cuda":
                torch.cuda.synchronize(self.model.device)
            run.compile_s = time.perf_counter() - begin
        run.decode_kernel = f"compiled, {found or 'attention by generated kernels'}"
        generated = (
            self.mode.decode == SDPBackend.MATH and not found
        )  # the math form, taken apart by the compiler
        if self.mode.decode is not None and not generated:
            require_operators(found, self.mode.decode, "decode")
        self._require_cuda_graph(counters)

    def _require_cuda_graph(self, counters) -> None:
        graphs = counters["stats"]["unique_graphs"]
        if graphs != 1:
            raise PeerError("unsupported", f"the decode step compiled into {graphs} graphs instead of one")
        self.compiled_frames = counters["frames"]["ok"]
        if self.model.device.type != "cuda":
            return
        from torch._inductor.cudagraph_trees import get_container

        skips = counters["inductor"]["cudagraph_skips"]
        manager = get_container(self.model.device.index or 0).tree_manager
        if skips or manager is None or not any(manager.roots.values()):
            raise PeerError("unsupported", f"the decode step did not become a CUDA graph ({skips} skipped)")

    def generate(self, clock) -> tuple:
        last = self.new_tokens - 1
        with torch.no_grad():
            self.cache.reset()
            clock.start()
            self.prefill()
            if last > 0:
                self.first_host.copy_(self.ids, non_blocking=True)
                clock.mark(0)
                with backend_context(self.mode.decode):
                    for index in range(1, self.new_tokens):
                        self.last_logits = None  # its memory belongs to the graph
                        self.last_logits = self.call_decode()
                        if index < last:
                            clock.mark(index)
            self.ids_host.copy_(self.history, non_blocking=True)
            clock.mark(last)
            result = clock.finish()
        if self.new_tokens > 1:
            from torch._dynamo.utils import counters

            if counters["frames"]["ok"] != self.compiled_frames:
                raise PeerError("internal", "the decode step was compiled again inside a run")
        return result


def release(device) -> None:
    """Gives back what an ended mode held, CUDA graphs and their pools included."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


def run_mode(
    model, sizes, name: str, prompt_ids: list, batch: int, new_tokens: int, warmup: int, reps: int
) -> ModeRun:
    """Measures one mode in one case. Raises what torch raises, and PeerError where the mode did not run as claimed."""
    mode, device = MODES[name], model.device
    on_gpu = device.type == "cuda"
    model.set_attn_implementation(mode.implementation)
    prompt = torch.tensor(prompt_ids, dtype=torch.int64).repeat(batch, 1)  # [batch, token], on the host
    if on_gpu:
        prompt = prompt.pin_memory()
        torch.cuda.reset_peak_memory_stats(device)
    make_clock = CudaClock if on_gpu else HostClock
    generator = (
        CompiledGenerator(model, mode, prompt, new_tokens, sizes)
        if mode.compiled
        else EagerGenerator(model, mode, prompt, new_tokens)
    )
    run = ModeRun(weights_bytes=sum(p.numel() * p.element_size() for p in model.parameters()))
    gc.collect()
    gc.disable()  # a collection inside a run would be counted as a slow token
    try:
        if mode.compiled:
            generator.prepare(run)
        run.cold_token_ms, _ = generator.generate(make_clock(device, new_tokens))
        run.ids = generator.ids_host.tolist()
        run.finite = bool(torch.isfinite(generator.last_logits).all())
        if not mode.compiled:
            generator.prepare(run)
        if not run.finite:
            return run
        for index in range(warmup + reps):
            clock = make_clock(device, new_tokens)
            token_ms, wall_ms = generator.generate(clock)
            if index >= warmup:
                run.token_ms.append(token_ms)
                run.wall_ms.append(wall_ms)
        if on_gpu:  # since the case began: a replayed graph allocates nothing, its recording did
            run.peak_bytes = torch.cuda.max_memory_allocated(device)
            run.peak_reserved_bytes = torch.cuda.max_memory_reserved(device)
        return run
    finally:
        gc.enable()
