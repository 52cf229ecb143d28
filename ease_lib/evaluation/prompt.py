"""The prompt template (APE, Zhou et al., 2023; the paper's too).

Prompts are built in one pass from parts, never by replacing placeholders, so no exemplar can corrupt another's place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ease_lib.tasks.base import Exemplar

TEMPLATE = "ape/1"
"""Identity of this template; change it when a single character of the prompts changes."""


def exemplar_text(exemplar: Exemplar) -> str:
    """`Input: ...`, newline, `Output: ...`: what the prompt shows and what the embedder reads."""
    return f"Input: {exemplar.input}\nOutput: {exemplar.output}"


def prompt_prefix(exemplars: Sequence[Exemplar], instruction: str = "") -> str:
    """Everything before the query; the same for all queries."""
    parts = [f"Instruction: {instruction}"] if instruction else []
    return "".join(part + "\n\n" for part in (*parts, *map(exemplar_text, exemplars)))


def render_prompt(exemplars: Sequence[Exemplar], query: str, instruction: str = "") -> str:
    """The whole prompt for one query."""
    return f"{prompt_prefix(exemplars, instruction)}Input: {query}\nOutput:"


def prompt_sha256(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()
