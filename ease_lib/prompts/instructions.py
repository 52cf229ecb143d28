"""Instructions to be searched together with the exemplars, proposed by the black-box itself.

The prompt is that of APE (Zhou et al., 2023) in the wording of Honovich et al. (2022): a few random exemplars, then
"The instruction was to". Differences from the code of EASE's authors: their prompt lacks the opening sentence, and they
keep the whole answer of up to 256 tokens; we keep its first paragraph without quotes, of up to 128 tokens. Equal
proposals count once here, and the empty instruction is always a candidate, so that exemplars alone are never ruled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import DataError

OPENING = "I gave a friend an instruction. Based on the instruction they produced the following input-output pairs:"
CLOSING = "The instruction was to"
PROPOSAL_TOKENS = 128
"""Largest number of tokens in a proposal."""
PROPOSAL_TEMPERATURE = 0.2
SHOWN_EXEMPLARS = 10
"""Number of random exemplars in each prompt that asks for a proposal; all of a smaller pool."""
_REPEATED_CLOSING = re.compile(r"^(the instruction was\s*(to|:)?|instruction:)\s*", re.IGNORECASE)
_QUOTES = "\"'`“”‘’«» "


def proposal_prompts(exemplars: Sequence[str], count: int, generator: np.random.Generator) -> list[str]:
    """Prompts that ask for one instruction each.

    Args:
        exemplars: texts of the pool, as a prompt shows them.
    """
    prompts = []
    for _ in range(count):
        drawn = generator.permutation(len(exemplars))[:SHOWN_EXEMPLARS]
        pairs = "\n\n".join(exemplars[int(position)] for position in drawn)
        prompts.append(f"{OPENING}\n\n{pairs}\n\n{CLOSING}")
    return prompts


def instruction_of(answer: str) -> str:
    """The instruction in a model's answer: its first paragraph on one line, as a sentence; empty if there is none."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", answer) if part.strip()]
    text = _REPEATED_CLOSING.sub("", paragraphs[0]).strip(_QUOTES) if paragraphs else ""
    return text[:1].upper() + text[1:] if re.search(r"\w", text) else ""


def distinct_instructions(texts: Iterable[str]) -> list[str]:
    """The empty instruction, then each text once, without regard to case, blanks or a final full stop."""
    kept: dict[str, str] = {"": ""}
    for text in texts:
        kept.setdefault(" ".join(text.lower().split()).rstrip(". "), text)
    return list(kept.values())


def read_instruction_file(uri: str, sources: Sources) -> list[str]:
    """Instructions from a text file, one a line, or from a JSON list of strings.

    Raises:
        DataError, StoreError: when it cannot be read or holds none.
    """
    named = "instructions_uri", uri
    texts = sources.document(*named) if uri.endswith(".json") else sources.text(*named).splitlines()
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(f"instructions_uri={uri}: a JSON list of strings is needed")
    texts = [text.strip() for text in texts if text.strip()]
    if not texts:
        raise DataError(f"instructions_uri={uri} holds no instruction; write one a line")
    return texts
