"""The prompt that is in use now, as it is, to be beaten: `baseline`, a text file, or messages in YAML or JSON.

    - {role: system, content: "You sort the mail of a shop."}
    - {role: user, content: "Subject: {subject}\n\n{body}"}

Where a query stands, `{column}` names a column of its row, or `{input}` its input; `{{` and `}}` are braces. A text is
one message of the user. Its own examples, if it has any, stand in it as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import DataError
from ease_lib.prompts.messages import Chat
from ease_lib.prompts.template import INPUT, MessageTemplate
from ease_lib.tasks.base import Exemplar

ROLES = ("system", "developer", "user", "assistant")


class Baseline(MessageTemplate):
    """See above; it is asked in place of a `PromptTemplate`. A message without a role is a prompt that is one text."""

    parameter = "baseline"
    own_fields = (INPUT,)

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
        if not baseline.columns and INPUT not in baseline.fields:
            raise DataError("baseline: no field of the query stands in it; write {input}, or columns of the row")
        return baseline

    @property
    def is_chat(self) -> bool:
        """Whether it is messages."""
        return bool(self.messages[0][0])

    def render(self, exemplars: Sequence[Exemplar], query: Exemplar, instruction: str = "") -> str:
        """The prompt for one query; exemplars and instruction are those of others, and have no place in it."""
        messages = self.filled(query)
        return Chat.of(messages) if self.is_chat else messages[0][1]

    def prompts(self, exemplars: Sequence[Exemplar], instruction: str = "") -> Callable[[Exemplar], str]:
        """As a template's, by their query."""
        return lambda query: self.render(exemplars, query, instruction)


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
    content = Baseline.read(uri, sources, role="")
    return Baseline.of(content if isinstance(content, dict) else {"messages": content})
