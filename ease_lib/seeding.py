"""Addressed randomness: every draw of the program names its stream.

Two parts never share a stream, and a resumed run draws what the first would have drawn.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, *address: str | int) -> int:
    """A 64-bit seed for the stream at `address`, e.g. `derive_seed(0, "ask", 41)`."""
    text = "/".join(str(part) for part in (seed, *address))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def rng(seed: int, *address: str | int) -> np.random.Generator:
    """A generator for the stream at `address`; equal addresses give equal draws on every machine."""
    return np.random.default_rng(derive_seed(seed, *address))
