"""Rename labels, so that a model cannot answer from what it knows (paper: AG News Remap, SST5 Reverse)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ease_lib.errors import ConfigError
from ease_lib.tasks.base import Row, TaskSource

MOST_LABELS = 100


def remap_labels(source: TaskSource, spec: str) -> TaskSource:
    """Apply one renaming to every row of the source, all splits alike.

    Args:
        spec: `shift` gives every label the next one's name, `reverse` mirrors their order; labels are ordered as
            numbers if all are, else alphabetically, or as listed behind a colon: `reverse:bad,okay,good`.
            `old=new;old=new` renames explicitly and must cover every label.

    Raises:
        ConfigError: when the spec does not fit the labels there are.
    """
    if not spec:
        return source
    groups = [source.rows, source.validation or [], source.test or []]
    labels = sorted({output for rows in groups for row in rows for output in row.outputs}, key=_label_order)
    if len(labels) > MOST_LABELS:
        raise ConfigError(
            f"label_remapping needs labels, but {source.name} has {len(labels)} different outputs "
            f"(at most {MOST_LABELS}); leave label_remapping empty"
        )
    renamed = _mapping(spec, labels)
    return replace(
        source,
        notices=(*source.notices, *_mergers(renamed)),
        rows=_renamed(source.rows, renamed),
        validation=None if source.validation is None else _renamed(source.validation, renamed),
        test=None if source.test is None else _renamed(source.test, renamed),
    )


def _mergers(renamed: dict[str, str]) -> list[str]:
    """Notice about labels that receive the same name."""
    merged = [[old for old, new in renamed.items() if new == name] for name in dict.fromkeys(renamed.values())]
    return [
        f"label_remapping gives one label, {renamed[old[0]]!r}, to {' and '.join(map(repr, old))}"
        for old in merged
        if len(old) > 1
    ]


def _renamed(rows: Iterable[Row], names: dict[str, str]) -> list[Row]:
    return [replace(row, outputs=tuple(names[output] for output in row.outputs)) for row in rows]


def _mapping(spec: str, labels: Sequence[str]) -> dict[str, str]:
    rule, _, listed = spec.partition(":")
    if rule in ("shift", "reverse"):
        order = [name.strip() for name in listed.split(",")] if listed else list(labels)
        if sorted(order) != sorted(labels):
            raise ConfigError(
                f"label_remapping={spec} lists {order}, but the labels are {list(labels)}; list each once"
            )
        renamed = order[1:] + order[:1] if rule == "shift" else order[::-1]
        return dict(zip(order, renamed, strict=True))
    pairs = [part.split("=", 1) for part in spec.split(";") if part.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ConfigError(f"label_remapping={spec} must be shift, reverse, or old=new;old=new")
    mapping = {old.strip(): new.strip() for old, new in pairs}
    if len(mapping) < len(pairs):
        raise ConfigError(f"label_remapping={spec} renames a label twice; give each label once")
    missing, unknown = set(labels) - set(mapping), set(mapping) - set(labels)
    if missing or unknown:
        raise ConfigError(
            f"label_remapping={spec} does not fit the labels {list(labels)}: "
            f"not covered {sorted(missing)}, not in the data {sorted(unknown)}"
        )
    return mapping


def _label_order(label: str) -> tuple[int, float, str]:
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)
