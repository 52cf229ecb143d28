"""Instructions that the search chooses among."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class InstructionConfig(Section):
    """Instructions searched together with the exemplars; the empty one is always among them."""

    instructions: int = param(
        0, "Instructions that the LLM proposes from exemplars (|P|); 0 is none.", low=0, high=10_000
    )
    instructions_uri: str = param(
        "", "Instructions from a file instead: .txt with one a line, or .json with a list; a path or s3://."
    )
