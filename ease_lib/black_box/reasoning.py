"""What a model thinks aloud before it answers."""

from __future__ import annotations

import re

_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_REASONING_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """The text without what a model thinks aloud before it answers: `<think>…</think>`, also if cut off in it.

    Some servers leave out the first of the two marks, because it stands in their template.
    """
    if "<" not in text:
        return text
    return _REASONING_END.sub("", _REASONING.sub("", text))
