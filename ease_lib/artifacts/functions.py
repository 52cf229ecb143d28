"""User functions that parameters name: `path/to/FILE.py:NAME`, the same on s3://, or `MODULE:NAME`.

It is the user's own code, and is run as such: a metric, or a function that answers in the place of an LLM.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import ConfigError

SHOWN_CHARACTERS = 500
"""Number of characters shown of the value that a function was given."""
NOT_ITS_OWN = "ease_lib", "concurrent", "asyncio"
"""Packages whose frames lead to a function."""


OF_ONES_OWN = "of_ones_own"
"""Module name given to a user's file."""


class LoadedFunction(NamedTuple):
    """A function, and the source of the file or module that it is from."""

    call: Callable[..., Any]
    source: bytes


def load_function(
    parameter: str, named: str, sources: Sources, check: Callable[[bytes], object] = lambda source: None
) -> LoadedFunction:
    """The function that a parameter names.

    Args:
        parameter: `name=value`, for messages.
        named: the function, as above.
        check: is given the source before any of it runs, and raises where it is not the one that may.

    Raises:
        ConfigError: when there is none, or its file or module cannot be loaded.
        StoreError: when the file cannot be read.
    """
    place, _, name = named.rpartition(":")
    is_file = place.endswith(".py")
    source = sources.read(place) if is_file else _installed(place)
    check(source)
    try:
        module = _loaded(place, source) if is_file else importlib.import_module(place)
    except Exception as error:
        raise ConfigError(f"{parameter} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"{parameter}: {place} has no function {name}")
    return LoadedFunction(function, source)


def _installed(module: str) -> bytes:
    """The source of a module, found without importing it or what it is in; empty if there is none."""
    path: Sequence[str] | None = None
    names = module.split(".")
    for number in range(1, len(names) + 1):
        spec = PathFinder.find_spec(".".join(names[:number]), path)
        path = spec.submodule_search_locations if spec else []
    return Path(spec.origin).read_bytes() if spec and spec.has_location and spec.origin else b""


def _loaded(place: str, source: bytes) -> Any:
    """The module of a file, from the content that was read and noted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(place).name
        path.write_bytes(source)
        spec = importlib.util.spec_from_file_location(OF_ONES_OWN, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__file__ = place
        sys.modules[OF_ONES_OWN] = module  # dataclasses look there for the module that they are of
        spec.loader.exec_module(module)
    return module


def source_of(function: Callable[..., Any]) -> bytes:
    """Source of the file or notebook cell that defines a function; it distinguishes functions of the same name.

    Values that it is closed over or that a `partial` binds are not part of it.

    Raises:
        ConfigError: when it has no Python source: it was typed at a prompt, or is compiled.
    """
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    try:
        lines, _ = inspect.findsource(inner if inspect.isroutine(inner) else type(inner).__call__)
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"{function!r} has no source file ({error}), so its scores cannot be told from those of another function; "
            "define it with `def` in a file or a notebook cell"
        ) from error
    return "".join(lines).encode(errors="surrogatepass")


def note_what_was_given(error: Exception, name: str, given: object) -> None:
    """Reduce the traceback of an exception to the function's own frames, and add a note of its arguments.

    A note is shown with the traceback, and is not part of messages: they are recorded, and rows are in no record.
    """
    trace = error.__traceback__
    while trace and trace.tb_next and str(trace.tb_frame.f_globals.get("__name__")).split(".")[0] in NOT_ITS_OWN:
        trace = trace.tb_next
    error.__traceback__ = trace
    shown = str(given)
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}… ({len(shown)} characters)"
    error.add_note(f"{name} was given {shown}")
