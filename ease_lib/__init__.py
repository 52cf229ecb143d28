"""EASE Pipelines: one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024).

`optimize` searches from a program or a notebook, and `optimize_async` from one that is async; `Result` is what they
find, and reads what `ease run` or the pipeline found. `Search` proposes exemplars to callers that evaluate them
themselves. `Evaluated` is what a custom evaluation may return instead of a score. `errors` are what all raise. They are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ease_lib import errors
    from ease_lib.black_box.in_process import Evaluated
    from ease_lib.program import optimize, optimize_async
    from ease_lib.result import Result
    from ease_lib.trials import Search

__version__ = "0.1.0"
__all__ = ["Evaluated", "Result", "Search", "__version__", "errors", "optimize", "optimize_async"]


_HOMES = {
    "Evaluated": "black_box.in_process",
    "Result": "result",
    "Search": "trials",
    "optimize": "program",
    "optimize_async": "program",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("ease_lib.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ease_lib.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
