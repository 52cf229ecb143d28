"""Functions of the user's own that parameters name: `path/to/FILE.py:NAME`, the same on s3://, or `MODULE:NAME`.

It is the user's own code, and is run as such: a metric, or a function that answers in the place of an LLM.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import ConfigError

SHOWN_CHARACTERS = 500
"""Of what a function was given."""
NOT_ITS_OWN = "ease_lib", "concurrent", "asyncio"
"""Packages whose frames lead to a function."""


OF_ONES_OWN = "of_ones_own"
"""What the module of a file is called."""


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
    """The source of a module, found without importing it or what it is in; empty where there is none."""
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


def made_of(function: Callable[..., Any]) -> bytes:
    """What tells a function from another of its name, and does so in another process.

    That is its source, or its code where it was typed into an interpreter; the values that it is closed over, that a
    `partial` binds or that its object holds; and what it names of its own package, with what that is made of. Of other
    packages and of objects without attributes the name counts.
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return "\n".join(_parts(function, {}, home=_package(inner))).encode(errors="surrogatepass")


def _parts(value: Any, seen: dict[int, Any], home: str) -> Iterator[str]:
    """Args: seen: by their ids, alive, so that no other takes one; home: the package that is looked into."""
    if isinstance(value, str | bytes | int | float | complex | None):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen[id(value)] = value
    for part in _inner(value, home):
        yield from [part.text] if isinstance(part, _Text) else _parts(part, seen, home)


class _Text(NamedTuple):
    text: str


def _inner(value: Any, home: str) -> list[Any]:
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, Mapping):
        return [part for item in sorted(value.items(), key=lambda item: repr(item[0])) for part in item]
    named = _Text(getattr(value, "__qualname__", type(value).__qualname__))
    if isinstance(value, types.ModuleType) or _package(value) != home:
        return [named]
    if isinstance(value, types.FunctionType):
        named_in_it = {name: value.__globals__[name] for name in _names(value.__code__) & value.__globals__.keys()}
        return [_Text(_source(value) or _code(value.__code__)), value.__defaults__, _closed_over(value), named_in_it]
    if isinstance(value, type):
        return [named, _Text(_source(value))]
    return [named, type(value), getattr(value, "__dict__", None)]


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None)).partition(".")[0]


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""


def _closed_over(function: types.FunctionType) -> list[Any]:
    cells = function.__closure__ or ()
    return [cell.cell_contents for cell in cells if cell != types.CellType()]


def _names(code: types.CodeType) -> set[str]:
    """Those that it reads, and functions within it."""
    inner = [_names(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: types.CodeType) -> str:
    """Instructions, names and constants, of functions within it too."""
    constants = [_code(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


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
