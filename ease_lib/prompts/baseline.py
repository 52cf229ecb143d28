"""The user's current prompt, for comparison: `baseline`, a text file, or messages in YAML or JSON.

    - {role: system, content: "You sort the mail of a shop."}
    - {role: user, content: "Subject: {subject}\n\n{body}"}

Where a query stands, `{column}` names a column of its row, or `{input}` its input; `{{` and `}}` are braces. A text is
one message of the user. Its own examples, if it has any, are in it as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ease_lib.artifacts.sources import Sources
from ease_lib.documents import Misfit, check
from ease_lib.errors import DataError
from ease_lib.prompts.messages import Chat
from ease_lib.prompts.template import INPUT, MessageTemplate
from ease_lib.tasks.base import Exemplar


class _BaselineMessage(TypedDict):
    """Messages of the baseline; the role is empty if the prompt is one text."""

    role: Literal["system", "developer", "user", "assistant", ""]
    content: str


class _BaselineDocument(TypedDict):
    messages: Annotated[list[_BaselineMessage], Field(min_length=1)]


class Baseline(MessageTemplate):
    """The current prompt; takes the place of a `PromptTemplate`."""

    parameter = "baseline"
    own_fields = (INPUT,)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Baseline:
        """Read a baseline from what `document` returned.

        Raises:
            DataError: naming the message.
        """
        try:
            check(_BaselineDocument, document)
        except Misfit as error:
            raise DataError(f"baseline: {error}; write a text, or a list of messages with role and content") from None
        baseline = cls(tuple((message["role"], message["content"]) for message in document["messages"]))
        if len(baseline.messages) > 1 and "" in dict(baseline.messages):
            raise DataError("baseline: a message has no role; write role: system, developer, user or assistant")
        if not baseline.columns and INPUT not in baseline.fields:
            raise DataError("baseline: it contains no field of the query; write {input}, or columns of the row")
        return baseline

    @property
    def is_chat(self) -> bool:
        """Whether the baseline consists of messages."""
        return bool(self.messages[0][0])

    def render(self, exemplars: Sequence[Exemplar], query: Exemplar, instruction: str = "") -> str:
        """The prompt for one query; exemplars and instruction are ignored."""
        messages = self.filled(query)
        return Chat.of(messages) if self.is_chat else messages[0][1]

    def prompts(self, exemplars: Sequence[Exemplar], instruction: str = "") -> Callable[[Exemplar], str]:
        """Prompts by their query, as a template makes them."""
        return lambda query: self.render(exemplars, query, instruction)


def baseline_of(dataset: Mapping[str, Any]) -> Baseline | None:
    """The baseline that `build_dataset` read, if there was one."""
    return Baseline.of(dataset["baseline"]) if dataset["baseline"] else None


def read_baseline(uri: str, sources: Sources) -> Baseline | None:
    """The baseline of a file, a path or s3://; None if none is named.

    Raises:
        ConfigError, DataError, StoreError: naming the file.
    """
    if not uri:
        return None
    content = Baseline.read(uri, sources, role="")
    return Baseline.of(content if isinstance(content, dict) else {"messages": content})
