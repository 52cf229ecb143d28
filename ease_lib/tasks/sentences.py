"""Everyday English sentences from a grammar of our own, for the task `lp_variant`.

They stand in for the sentences that the paper translates (`pig_latin` of BIG-bench), which we do not ship: 7.8
words long (theirs: 7.2), with a tenth fewer different words. Three in four tell of people, things and places; the
others ask, request or exclaim. Words and patterns are in `data/sentences.yaml`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
import yaml

_SLOT = re.compile(r"\{(a )?(\w+)\}")


class Grammar(NamedTuple):
    """Lists of words by kind, and patterns with slots for them."""

    words: Mapping[str, Sequence[str]]
    patterns: Sequence[str]


@functools.cache
def grammar() -> Grammar:
    """The included grammar."""
    content = yaml.safe_load(resources.files(__package__).joinpath("data/sentences.yaml").read_text(encoding="utf-8"))
    words = {kind: [word.strip() for word in listed.split(",")] for kind, listed in content["words"].items()}
    return Grammar(words, content["patterns"].strip().splitlines())


def sentence(draw: np.random.Generator) -> str:
    """A random sentence."""
    words, patterns = grammar()

    def fill(slot: re.Match[str]) -> str:
        article, kind = slot.groups()
        if kind in ("S", "s"):
            shown = _pick(words[("name", "person")[int(draw.integers(2))]], draw)
            return shown[0].upper() + shown[1:] if kind == "S" else shown
        if kind in ("base", "past"):
            return _pick(words["act"], draw).split("/")[kind == "past"]
        shown = _pick(words[kind], draw)
        return f"{'an' if shown[0] in 'aeiou' else 'a'} {shown}" if article else shown

    return _SLOT.sub(fill, _pick(patterns, draw))


def _pick(options: Sequence[str], draw: np.random.Generator) -> str:
    return options[int(draw.integers(len(options)))]
