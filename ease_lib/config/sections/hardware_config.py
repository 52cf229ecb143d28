"""Where is computed, and on how much."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class HardwareConfig(Section):
    """Where the embedder and the surrogate compute. Numbers differ in their last digits between CPU and GPU."""

    device: str = param(
        "auto",
        "Where embedder and surrogate compute: cpu, cuda, or auto, a GPU where there is one.",
        choices=("auto", "cpu", "cuda"),
    )
    embedder_precision: str = param(
        "auto",
        "In which the embedder computes: float32, bfloat16, or auto, bfloat16 on GPUs and CPUs made for it.",
        choices=("auto", "float32", "bfloat16"),
    )
