"""What records, manifests of versions and tombstones are made of: who reads one may have been given it by an enemy.

A shape is a type; a tuple of shapes, of which one fits; a list with the shape of its items; or names with the shape of
each, `*` for every name, and a question mark behind one that may be missing. Names that a shape does not have are let
be.
"""

from __future__ import annotations

import re
from typing import Any

Shape = Any
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(Z|\+00:00)")
"""A pattern is the shape of a text that it fits."""

_DIGESTS: Shape = {"*": {"*": str}}
_PART: Shape = {
    **dict.fromkeys(("name", "contract", "uri", "sha256"), str),
    **{"bytes": int, "rows?": int, "files?": {"*": {"sha256": str, "bytes": int}}},
    **dict.fromkeys(("record?", "record_sha256?", "schema_sha256?"), str),
}
_ANSWERED_BY: Shape = {"model": str, "system_fingerprint": str, "answers": int}
_LLM: Shape = {
    **dict.fromkeys(("model", "endpoint", "api"), str),
    **dict.fromkeys(("new_answers", "cached_answers", "prompt_tokens", "completion_tokens"), int),
    "answered_by": [_ANSWERED_BY],
    "left_out?": [str],
}
RECORD: Shape = {
    "stage": str,
    "state": str,
    "run": {"id": str, "name": str, "scheduled": str},
    "attempt": {
        **dict.fromkeys(("id", "work", "record", "pod"), str),
        **{"copies": {"*": str}, "earlier": [str], "retry": int},
    },
    "started": _MOMENT,
    "ended": (_MOMENT, None),
    "error": (str, None),
    "inputs": [_PART],
    "outputs": [_PART],
    "parameters": {"*": object},
    "defaults": [str],
    "software": {**dict.fromkeys(("ease", "revision", "image", "python"), str), "packages": {"*": str}},
    "files_read?": [{"uri": str, "sha256": str, "bytes": int}],
    "embedder?": ({"name": str}, None),
    "llm?": (_LLM, None),
    "entries?": _DIGESTS,
    "written?": _DIGESTS,
    "found?": {"said": [str], "scores": {"*": str}},
}
MANIFEST: Shape = {
    "version": str,
    "run": {"id": str},
    "head": {"record": str, "record_sha256": str},
    "published_by": str,
    "rows": [str],
    "validation_rows": [str],
    "previous": ({"version": str, "sha256": str}, None),
    "files": {"*": {"sha256": str, "bytes": int}},
}
TOMBSTONE: Shape = {
    **dict.fromkeys(("row", "when", "reason", "state"), str),
    "removed": [{"uri": str, "sha256": str}],
}
SHAPES: dict[str, Shape] = {"lineage_record": RECORD, "published_prompt": MANIFEST, "tombstone": TOMBSTONE}


def misfit(value: Any, shape: Shape, name: str = "") -> str:
    """The first name whose value is not of the shape, with what it is instead; empty where all fit."""
    if shape is object:
        return ""
    if isinstance(shape, re.Pattern):
        return "" if isinstance(value, str) and shape.fullmatch(value) else f"{name} is {str(value)[:40]!r}"
    if isinstance(shape, tuple):
        return "" if any(not misfit(value, each) for each in shape) else _is(name, value)
    if isinstance(shape, list) and isinstance(value, list):
        return next(filter(None, (misfit(item, shape[0], f"{name}[]") for item in value)), "")
    if isinstance(shape, dict) and isinstance(value, dict):
        return next(filter(None, (_of_names(value, each, inner, name) for each, inner in shape.items())), "")
    is_type = value is None if shape is None else isinstance(shape, type) and isinstance(value, shape)
    return "" if is_type and not (shape is int and isinstance(value, bool)) else _is(name, value)


def _of_names(value: dict[str, Any], each: str, shape: Shape, name: str) -> str:
    if each == "*":
        return next(filter(None, (misfit(item, shape, f"{name}.{key}") for key, item in value.items())), "")
    inner = f"{name}.{each.removesuffix('?')}".lstrip(".")
    if each.removesuffix("?") not in value:
        return "" if each.endswith("?") else f"{inner} is missing"
    return misfit(value[each.removesuffix("?")], shape, inner)


def _is(name: str, value: Any) -> str:
    return f"{name or 'it'} is {type(value).__name__}"
