"""A metric of one's own: `metric: path/to/metric.py:score`, the same on s3://, or `installed.module:score`.

    def score(answer: str, outputs: list[str]) -> float:      # 0 is wrong, 1 is right
        ...

`answer` is what the LLM said, without what it thought aloud; `outputs` are the accepted outputs of the row. The file is
read by every stage that scores, and must be the same as when the data was made: its SHA-256 is part of the data's
summary, and so of the lineage and of what a search is known by. It is the user's own code and is run as such.
A program that calls `ease_lib.optimize` gives the function itself.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ease_lib.ambient import Ambient
from ease_lib.artifacts.store import fetched
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.metrics import METRICS, Metric

OwnMetric = Callable[[str, list[str]], float]
OWN_METRIC: Ambient[OwnMetric | None] = Ambient(None)
"""What a metric of the module `function` is."""
FUNCTION = "function"


class LoadedMetric(NamedTuple):
    """A metric, and the SHA-256 of the file that it was read from; empty of one of ours."""

    score: Metric
    sha256: str = ""


def load_metric(name: str, sha256: str = "") -> LoadedMetric:
    """A metric by its name, or of a file or module.

    Args:
        sha256: that its file must have; empty takes any.

    Raises:
        ConfigError: when there is none, or its file changed.
        StoreError: when it cannot be read.
    """
    if name in METRICS:
        return LoadedMetric(METRICS[name])
    place, _, function = name.rpartition(":")
    source, namespace = _file(name, place) if place.endswith(".py") else _module(name, place)
    found = hashlib.sha256(source).hexdigest()
    if sha256 and found != sha256:
        raise ConfigError(
            f"metric={name} changed since the data was made (SHA-256 {found[:12]}…, then {sha256[:12]}…); "
            "put the file back, or begin with build_dataset"
        )
    if not callable(namespace.get(function)):
        raise ConfigError(f"metric={name}: {place} has no function {function}")
    return LoadedMetric(_checked(name, namespace[function]), found)


def _file(name: str, place: str) -> tuple[bytes, dict[str, Any]]:
    source = fetched(place)
    namespace: dict[str, Any] = {"__name__": "metric_of_ones_own", "__file__": place}
    try:
        exec(compile(source, place, "exec"), namespace)  # noqa: S102 the user's own code, by the user's own parameter
    except Exception as error:
        raise ConfigError(f"metric={name} cannot be loaded: {type(error).__name__}: {error}") from error
    return source, namespace


def _module(name: str, place: str) -> tuple[bytes, dict[str, Any]]:
    own = OWN_METRIC.value
    if place == FUNCTION and own is not None:
        return _source(own), {name_of(own): own}
    try:
        module = importlib.import_module(place)
    except Exception as error:
        raise ConfigError(f"metric={name} cannot be loaded: {type(error).__name__}: {error}") from error
    return Path(module.__file__).read_bytes() if module.__file__ else b"", vars(module)


def name_of(function: Callable[..., Any]) -> str:
    """What a function of the caller's is called."""
    return getattr(function, "__name__", type(function).__name__)


def _source(function: OwnMetric) -> bytes:
    """Of a function that was typed into an interpreter its code; it changes with the function as a file does."""
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return bytes(code.co_code) if code else b""


def _checked(name: str, function: Callable[[str, list[str]], Any]) -> Metric:
    def score(answer: str, outputs: Sequence[str]) -> float:
        try:
            value = function(answer, list(outputs))
            number = float(value)
        except Exception as error:
            raise DataError(f"metric={name} failed on an answer: {type(error).__name__}: {error}") from error
        if not 0 <= number <= 1:
            raise DataError(f"metric={name} returned {value!r} for an answer; return a number from 0 to 1")
        return number

    return score
