"""The sizes of one attention call and the work they mean, as lib/backend/attention_problem.h. Needs no torch."""

import math
from dataclasses import dataclass

CACHE_MULTIPLE = 4  # the rotated buffers hold this many times the L2 cache
MOST_COPIES = 256


@dataclass(frozen=True)
class Problem:
    """Sizes of one attention call, as lib/backend/attention_problem.h."""

    batch: int
    q_heads: int
    kv_heads: int
    head_dim: int
    q_len: int
    kv_len: int
    causal: bool

    def text(self) -> str:
        return (
            f"batch {self.batch}, heads {self.q_heads}/{self.kv_heads}, q {self.q_len}, kv {self.kv_len}, "
            f"dim {self.head_dim}{', causal' if self.causal else ''}"
        )

    def visible_pairs(self) -> int:
        if not self.causal:
            return self.q_len * self.kv_len
        first = max(0, self.q_len - self.kv_len)  # the queries before it see no key
        seeing = self.q_len - first
        return seeing * (first + 1 + self.kv_len - self.q_len) + seeing * (seeing - 1) // 2

    def flops(self, pairs: int) -> float:
        return 4.0 * self.head_dim * pairs * self.batch * self.q_heads

    def least_bytes(self, element_bytes: int) -> float:
        rows = 2.0 * self.q_len * self.q_heads + 2.0 * self.kv_len * self.kv_heads
        return rows * self.batch * self.head_dim * element_bytes


def copies_for(bytes_of_one: float, cache_bytes: int) -> int:
    """So many sets of tensors that together they exceed CACHE_MULTIPLE times the cache."""
    return max(1, min(MOST_COPIES, math.floor(CACHE_MULTIPLE * cache_bytes / bytes_of_one) + 1))
