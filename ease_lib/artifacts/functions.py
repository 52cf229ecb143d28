"""Functions of the user's own that parameters name: `path/to/FILE.py:NAME`, the same on s3://, or `MODULE:NAME`.

It is the user's own code, and is run as such: a metric, or a function that answers in the place of an LLM.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import ConfigError

SHOWN_CHARACTERS = 500
"""Of what a function was given."""
NOT_ITS_OWN = "ease_lib", "concurrent", "asyncio"
"""Packages whose frames lead to a function."""


class LoadedFunction(NamedTuple):
    """A function, and the source of the file or module that it is from."""

    call: Callable[..., Any]
    source: bytes


def load_function(parameter: str, named: str, sources: Sources) -> LoadedFunction:
    """The function that a parameter names.

    Args:
        parameter: `name=value`, for messages.
        named: the function, as above.

    Raises:
        ConfigError: when there is none, or its file or module cannot be loaded.
        StoreError: when the file cannot be read.
    """
    place, _, name = named.rpartition(":")
    source = sources.read(place) if place.endswith(".py") else None
    try:
        module = importlib.import_module(place) if source is None else _loaded(place, source)
    except Exception as error:
        raise ConfigError(f"{parameter} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"{parameter}: {place} has no function {name}")
    if source is None:
        source = Path(module.__file__).read_bytes() if module.__file__ else b""
    return LoadedFunction(function, source)


def _loaded(place: str, source: bytes) -> Any:
    """The module of a file, from the content that was read and noted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(place).name
        path.write_bytes(source)
        spec = importlib.util.spec_from_file_location("of_ones_own", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__file__ = place
        spec.loader.exec_module(module)
    return module


def note_what_was_given(error: Exception, name: str, given: object) -> None:
    """Leave an exception of a function its own frames alone, with a note of what the function was given.

    A note is shown with the traceback, and is no part of messages: they are recorded, and rows stand in no record.
    """
    trace = error.__traceback__
    while trace and trace.tb_next and str(trace.tb_frame.f_globals.get("__name__")).split(".")[0] in NOT_ITS_OWN:
        trace = trace.tb_next
    error.__traceback__ = trace
    shown = str(given)
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}… ({len(shown)} characters)"
    error.add_note(f"{name} was given {shown}")
