"""Instructions that the search chooses among."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class InstructionConfig(Section):
    """Instructions searched together with the exemplars; the empty one is always among them."""

    instructions: int = param(
        0, "Number of instructions that the LLM proposes from exemplars (|P|).", low=0, high=10_000
    )
    instructions_uri: str = param(
        "", "File with instructions to use instead: .txt with one per line, or .json with a list; a path or s3://."
    )
