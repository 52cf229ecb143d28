"""Numbers and texts as messages, logs and pages show them."""

from __future__ import annotations


def grouped(number: float) -> str:
    """A whole number with its thousands apart: `12 345`."""
    return f"{number:,.0f}".replace(",", " ")


def cut(text: str, characters: int) -> str:
    """The beginning of a text that is longer than so many characters, with `…` as its last one."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
