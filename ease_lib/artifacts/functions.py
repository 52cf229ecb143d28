"""Functions of the user's own that parameters name: `path/to/FILE.py:NAME`, the same on s3://, or `MODULE:NAME`.

It is the user's own code, and is run as such: a metric, or a function that answers in the place of an LLM.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import importlib.util
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
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
    """What tells a function from another of its name, and does so in another process of the same Python.

    That is its code; the values that it is closed over, that a `partial` binds or that its object holds; and what it
    and what it calls name of their own package. Of other packages functions and classes count by name, and objects by
    what `pickle` would keep of them, or by their class where that is refused.

    Raises:
        ConfigError: when values within it are nested too deep.
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        return "\n".join(_parts(function, {}, home=_package(inner))).encode(errors="surrogatepass")
    except RecursionError as error:
        raise ConfigError(f"{function!r} holds values that are nested too deep to tell it from others") from error


def _parts(value: Any, seen: dict[int, tuple[int, Any]], home: str) -> Iterator[str]:
    """Args: seen: by ids, with the objects, so that no other takes one; home: the package that is looked into."""
    if value is None or type(value) in (str, bytes, int, float, complex, bool):
        yield repr(value)
        return
    if id(value) in seen:
        yield f"#{seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value
    inner = _inner(value, home)
    yield f"{type(value).__qualname__}({len(inner)}"
    for part in inner:
        yield from _parts(part, seen, home)


def _inner(value: Any, home: str) -> list[Any]:
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_varnames, value.co_consts]
    if type(value) in (list, tuple):
        return list(value)
    if type(value) in (set, frozenset):
        return sorted(value, key=repr)
    if type(value) in (dict, types.MappingProxyType):
        return [part for item in sorted(value.items(), key=lambda item: repr(item[0])) for part in item]
    name = [getattr(value, "__module__", ""), getattr(value, "__qualname__", getattr(value, "__name__", ""))]
    if isinstance(value, types.FunctionType | type) and _package(value) == home:
        return [*name, *(_of_function(value) if isinstance(value, types.FunctionType) else _of_class(value))]
    if isinstance(value, types.ModuleType | type | types.FunctionType | types.BuiltinFunctionType):
        return name
    return [type(value), *_kept(value)]


def _of_function(function: types.FunctionType) -> list[Any]:
    named = {name: function.__globals__[name] for name in _names(function.__code__) & function.__globals__.keys()}
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    return [function.__code__, function.__defaults__, function.__kwdefaults__, cells, named]


def _of_class(each: type) -> list[Any]:
    """Its bases, its methods, and the values that it holds."""
    methods = (types.FunctionType, staticmethod, classmethod, property)
    own = {
        name: part
        for name, part in vars(each).items()
        if isinstance(part, methods) or not (name.startswith("__") or isinstance(part, types.MemberDescriptorType))
    }
    return [each.__bases__, own]


def _kept(value: Any) -> list[Any]:
    """What `pickle` would keep of an object beside its class; nothing of one that holds a lock or a connection."""
    own = copyreg.dispatch_table.get(type(value))
    try:
        reduced: Any = own(value) if own else value.__reduce_ex__(4)
    except Exception:  # whatever its class raises
        return []
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _names(code: types.CodeType) -> set[str]:
    """Those that it reads, and functions within it."""
    inner = [_names(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None)).partition(".")[0]


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
