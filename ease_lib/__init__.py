"""EASE Pipelines: one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024).

`optimize` searches from a program or a notebook, and `optimize_async` from one that is async; `Result` is what they
find, and reads what `ease run` or the pipeline found; `errors` are what all raise. They are loaded when they are first
used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ease_lib import errors
    from ease_lib.program import optimize, optimize_async
    from ease_lib.result import Result

__version__ = "0.1.0"
__all__ = ["Result", "__version__", "errors", "optimize", "optimize_async"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("ease_lib.errors")
    program = "ease_lib.program"
    home = {"optimize": program, "optimize_async": program, "Result": "ease_lib.result"}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
