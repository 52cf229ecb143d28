"""The prompt that is in use now, as it is, to be beaten: `baseline`, a text file, or messages in YAML or JSON.

    - {role: system, content: "You sort the mail of a shop."}
    - {role: user, content: "Subject: {subject}\n\n{body}"}

Where a query stands, `{column}` names a column of its row, or `{input}` its input; `{{` and `}}` are braces. A text is
one message of the user. Its own examples, if it has any, stand in it as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

import yaml

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import DataError
from ease_lib.prompts.messages import Chat
from ease_lib.prompts.template import INPUT, fill, parsed
from ease_lib.tasks.base import Exemplar
from ease_lib.tasks.columns import Parts

ROLES = ("system", "developer", "user", "assistant")


@dataclass(frozen=True)
class Baseline:
    """See above; it is asked in place of a `PromptTemplate`.

    Args:
        messages: role and text of each; no role is a prompt that is one text.
    """

    messages: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Baseline:
        """From what `document` gave.

        Raises:
            DataError: naming the message.
        """
        messages = document.get("messages")
        if not isinstance(messages, list) or not messages:
            raise DataError("baseline: a text, or a list of messages with role and content, is needed")
        found = []
        for number, message in enumerate(messages, 1):
            role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else ("", "")
            if role not in (*ROLES, "") or not isinstance(content, str):
                raise DataError(f"baseline: message {number} needs a content, and a role of {', '.join(ROLES)}")
            found.append((role, content))
        baseline = cls(tuple(found))
        if not baseline.columns and INPUT not in baseline._fields:
            raise DataError("baseline: no field of the query stands in it; write {input}, or columns of the row")
        return baseline

    @property
    def document(self) -> dict[str, Any]:
        return {"messages": [{"role": role, "content": text} for role, text in self.messages]}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the row that it names beside the input."""
        return tuple(field for field in self._fields if field != INPUT)

    @property
    def is_chat(self) -> bool:
        """Whether it is messages."""
        return bool(self.messages[0][0])

    def render(self, exemplars: Sequence[Exemplar], query: Exemplar, instruction: str = "") -> str:
        """The prompt for one query; exemplars and instruction are those of others, and have no place in it."""
        values = {**dict(query.fields), INPUT: query.input}
        texts = [fill(parts, values) for parts in self._parts]
        if not self.is_chat:
            return texts[0]
        return Chat.of((role, text) for (role, _), text in zip(self.messages, texts, strict=True))

    @cached_property
    def _parts(self) -> list[Parts]:
        return [parsed("baseline", f"message {number}", text) for number, (_, text) in enumerate(self.messages, 1)]

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field for parts in self._parts for _, field in parts if field is not None))


def baseline_of(dataset: Mapping[str, Any]) -> Baseline | None:
    """That which `build_dataset` read, if there was one."""
    return Baseline.of(dataset["baseline"]) if dataset["baseline"] else None


def read_baseline(uri: str, sources: Sources) -> Baseline | None:
    """The baseline of a file, a path or s3://; none where none is named.

    Raises:
        ConfigError, DataError, StoreError: naming the file.
    """
    if not uri:
        return None
    try:
        text = sources.read(uri).decode("utf-8-sig")
        if PurePath(uri).suffix not in (".yaml", ".yml", ".json"):
            return Baseline.of({"messages": [{"role": "", "content": text.rstrip("\n")}]})
        content = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"baseline={uri} is not UTF-8 text or YAML: {' '.join(str(error).split())}") from error
    return Baseline.of(content if isinstance(content, dict) else {"messages": content})
