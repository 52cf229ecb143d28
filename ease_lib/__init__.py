"""EASE Pipelines: one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024).

`optimize` searches from a program or a notebook; `Result` is what it finds, and reads what `ease run` or the pipeline
found. Both are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ease_lib.program import optimize
    from ease_lib.result import Result

__version__ = "0.1.0"
__all__ = ["Result", "__version__", "optimize"]


def __getattr__(name: str) -> Any:
    if name == "optimize":
        from ease_lib.program import optimize

        return optimize
    if name == "Result":
        from ease_lib.result import Result

        return Result
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
