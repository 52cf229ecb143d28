"""Hardware for the computations."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class HardwareConfig(Section):
    """Device of the embedder and the surrogate. Numbers differ in their last digits between CPU and GPU."""

    device: str = param(
        "auto",
        "Device for embedder and surrogate: cpu, cuda, or auto (a GPU if there is one).",
        choices=("auto", "cpu", "cuda"),
    )
    embedder_precision: str = param(
        "auto",
        "Precision of the embedder: float32, bfloat16, or auto (bfloat16 on GPUs and on CPUs that support it).",
        choices=("auto", "float32", "bfloat16"),
    )
