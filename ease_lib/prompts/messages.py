"""Prompts of several messages, and answers without what a model thinks aloud before them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ease_lib.tasks.base import HALF_CHARACTER


class Chat(str):
    """Messages of a prompt. Its text is their JSON, which is used in caches, digests and estimates."""

    @classmethod
    def of(cls, messages: Iterable[tuple[str, str]]) -> Chat:
        """Args: messages: role (system, user or assistant) and text of each."""
        return cls(json.dumps([{"role": role, "content": text} for role, text in messages], ensure_ascii=False))


class Handed(str):
    """Exemplars and a row for a program. Its text is their JSON."""

    @property
    def given(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Exemplars in order, and the row; a new copy for each call, because a program may change them."""
        handed = json.loads(self)
        return handed["exemplars"], handed["row"]


def messages_of(prompt: str) -> list[dict[str, str]]:
    """Messages for a chat endpoint; a prompt that is one text becomes one user message."""
    if isinstance(prompt, Chat):
        messages: list[dict[str, str]] = json.loads(prompt)
        return messages
    return [{"role": "user", "content": prompt}]


def as_text(prompt: str) -> str:
    """Show a prompt to people: its text, or each message below its role; for a program, its exemplars, one line
    each."""
    if isinstance(prompt, Handed):
        return "\n".join(json.dumps(exemplar, ensure_ascii=False) for exemplar in prompt.given[0])
    if not isinstance(prompt, Chat):
        return prompt
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages_of(prompt))


_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_REASONING_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """The text without what a model thinks aloud before it answers: `<think>…</think>`, also if cut off in it.

    Some servers leave out the first of the two marks, because it is in their template.
    """
    if "<" not in text:
        return text
    return _REASONING_END.sub("", _REASONING.sub("", text))


def as_answer(text: str) -> str:
    """Answer of an endpoint in the form that is kept: without reasoning, and U+FFFD for a character cut in two."""
    said = without_reasoning(text)
    return said if said.isascii() else HALF_CHARACTER.sub("\ufffd", said)
