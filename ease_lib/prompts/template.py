"""Templates that turn rows into prompts, filled in one pass, so that braces in data are never fields.

The default is APE's (Zhou et al., 2023; the paper's too). Another one is a YAML file (`prompt`), any of whose entries
may be left out:

    exemplars     text: they are in one text with the query; turns: each is a message of the user and its answer;
                  rows, of runs with `evaluate`: as they are, with the row, for a program
    system        the system message; without it there is none
    before        text before the exemplars
    instruction   block with {instruction}, where one is searched: before the exemplars, or with turns in the system
                  message; not needed where another entry has {instruction}
    query         how a row is asked: {input}, and any column of the row
    answer        what an exemplar adds to that: {output}
    between       what is between the parts of a text
    after         text between the exemplars and the query
    stop          texts that end an answer, one or a list

`{{` and `}}` are braces. A prompt is a text, or messages (`Chat`) where there are several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import StringConstraints

from ease_lib.artifacts.sources import Sources
from ease_lib.config.sections import ROWS
from ease_lib.digests import sha256_of_json
from ease_lib.documents import Misfit, restored
from ease_lib.errors import ConfigError, DataError
from ease_lib.prompts.messages import Chat, Handed
from ease_lib.tasks.base import Exemplar
from ease_lib.tasks.columns import Parts, split_fields

PAPER = "ape/1"
"""Identity of the default; change it when a single character of its prompts changes."""
INPUT, OUTPUT, INSTRUCTION = "input", "output", "instruction"
BY_TURNS = {"query": "{input}", "answer": "{output}"}
"""Defaults of a conversation, which needs only the texts."""


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    """A prompt template; the module's docstring describes the entries."""

    exemplars: Literal["text", "turns", "rows"] = "text"
    system: str = ""
    before: str = ""
    instruction: str = "Instruction: {instruction}"
    query: str = "Input: {input}\nOutput:"
    answer: str = " {output}"
    between: str = "\n\n"
    after: str = ""
    stop: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PromptTemplate:
        """Read a template from a YAML file or an artifact.

        Raises:
            ConfigError: naming the entry.
        """
        given = dict(BY_TURNS if document.get("exemplars") == "turns" else {})
        given |= {str(name): value for name, value in document.items()}  # `on` and `1` are not texts in YAML
        stop = given.get("stop") or ()
        try:
            template = restored(cls, {**given, "stop": [stop] if isinstance(stop, str) else stop})
        except Misfit as error:
            known = ", ".join(field.name for field in fields(cls))
            raise ConfigError(f"prompt: {error}; the fields are {known}, with texts in quotes") from None
        template._check()
        return template

    def _check(self) -> None:
        fixed = {name: _fields_of(self._parts[name]) for name in ("system", "before", "after", "instruction")}
        for name, found in fixed.items():
            if found - {INSTRUCTION}:
                raise ConfigError(
                    f"prompt: {name} has the field {{{sorted(found - {INSTRUCTION})[0]}}}, which differs between "
                    "queries; use only {instruction} there, and columns in query and answer"
                )
        asked, said = _fields_of(self._parts["query"]), _fields_of(self._parts["answer"])
        if not asked - {INSTRUCTION}:
            raise ConfigError("prompt: query names no field; write {input}, or columns of the row")
        if OUTPUT in asked:
            raise ConfigError("prompt: query has the field {output}, which would give the answer away; use answer")
        if OUTPUT not in said:
            raise ConfigError("prompt: answer lacks the field {output}")
        if INSTRUCTION not in asked.union(*fixed.values()):
            raise ConfigError("prompt: instruction lacks the field {instruction}")

    @cached_property
    def _parts(self) -> dict[str, Parts]:
        names = ("system", "before", "instruction", "query", "answer", "after")
        return {name: parsed("prompt", name, getattr(self, name)) for name in names}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the row that are named besides input and output, in the order of their names' first places."""
        named = [field for name in ("query", "answer") for _, field in self._parts[name] if field]
        return tuple(dict.fromkeys(field for field in named if field not in (INPUT, OUTPUT, INSTRUCTION)))

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Fields that a query must have."""
        return tuple(dict.fromkeys(field for _, field in self._parts["query"] if field and field != INSTRUCTION))

    @property
    def document(self) -> dict[str, Any]:
        return {**asdict(self), "stop": list(self.stop)}

    @property
    def identity(self) -> str:
        """Name of the template in journals, results and lineage."""
        if self == PromptTemplate():
            return PAPER
        return sha256_of_json(self.document)[:16]

    @property
    def is_chat(self) -> bool:
        """Whether its prompts are messages."""
        return self.exemplars == "turns" or bool(self.system)

    @property
    def of_program(self) -> bool:
        """Whether a program receives rows, so that no prompt is written."""
        return self.exemplars == ROWS

    @property
    def query_opening(self) -> str:
        """The text that every query begins with."""
        return self._parts["query"][0][0]

    def exemplar(self, row: Exemplar) -> str:
        """An exemplar as a text."""
        return self._filled("query", row) + self._filled("answer", row)

    def render(self, exemplars: Sequence[Exemplar], query: Exemplar, instruction: str = "") -> str:
        """The prompt for one query: a text, or a `Chat`."""
        return self.prompts(exemplars, instruction)(query)

    def prompts(self, exemplars: Sequence[Exemplar], instruction: str = "") -> Callable[[Exemplar], str]:
        """The prompts of a sequence by their query; what is the same in all of them is written once."""
        if self.of_program:
            begun = ", ".join(row_text(row) for row in exemplars)
            return lambda query: Handed(f'{{"exemplars": [{begun}], "row": {row_text(query)}}}')
        if self.exemplars == "turns":
            return lambda query: Chat.of(self._turns(exemplars, query, instruction))
        block = [] if self._places_instruction or not instruction else [self._fixed("instruction", instruction)]
        opening = [self._fixed("before", instruction), *block]
        shown = [self._filled("query", row, instruction) + self._filled("answer", row) for row in exemplars]
        begun = self.between.join(part for part in (*opening, *shown, self._fixed("after", instruction)) if part)
        system = self._fixed("system", instruction)

        def prompt(query: Exemplar) -> str:
            text = self.between.join(part for part in (begun, self._filled("query", query, instruction)) if part)
            return Chat.of([("system", system), ("user", text)]) if system else text

        return prompt

    def _turns(self, exemplars: Sequence[Exemplar], query: Exemplar, instruction: str) -> list[tuple[str, str]]:
        block = "" if self._places_instruction or not instruction else self._fixed("instruction", instruction)
        system = self.between.join(part for part in (self._fixed("system", instruction), block) if part)
        messages = [("system", system)] if system else []
        asked = [self._filled("query", row, instruction) for row in (*exemplars, query)]
        asked[-1] = self.between.join(part for part in (self._fixed("after", instruction), asked[-1]) if part)
        asked[0] = self.between.join(part for part in (self._fixed("before", instruction), asked[0]) if part)
        for row, question in zip(exemplars, asked[:-1], strict=True):
            messages += [("user", question), ("assistant", self._filled("answer", row).strip())]
        return [*messages, ("user", asked[-1])]

    @cached_property
    def _places_instruction(self) -> bool:
        return any(INSTRUCTION in _fields_of(self._parts[name]) for name in ("system", "before", "after", "query"))

    def _fixed(self, name: str, instruction: str) -> str:
        return fill(self._parts[name], {INSTRUCTION: instruction})

    def _filled(self, name: str, row: Exemplar, instruction: str = "") -> str:
        values = {**dict(row.fields), INPUT: row.input, INSTRUCTION: instruction}
        return fill(self._parts[name], values | {OUTPUT: row.output} if row.outputs else values)

    def placeholder(self, shown: Sequence[Exemplar]) -> Exemplar:
        """A row whose texts are the names of its fields in braces, for showing a prompt without a query.

        Args:
            shown: exemplars of the prompt. A name that is in one of them is lengthened: `{input_}`.
        """
        texts = "\n".join(map(self.exemplar, shown))

        def mark(name: str) -> str:
            return mark(f"{name}_") if f"{{{name}}}" in texts else f"{{{name}}}"

        return Exemplar(-1, mark(INPUT), (), fields=tuple((column, mark(column)) for column in self.columns))


def row_text(row: Exemplar) -> str:
    """A row in the form for programs, as JSON: its columns; of a task without any `input`, `output`, and `outputs`, all
    that are accepted.
    """
    columns = {name: json.loads(text) for name, text in row.fields}
    shown = {INPUT: row.input, OUTPUT: row.outputs[0] if row.outputs else "", "outputs": list(row.outputs)}
    return json.dumps(columns or shown, ensure_ascii=False)


def parsed(noun: str, name: str, text: str) -> Parts:
    """The texts and fields of an entry.

    Args:
        noun, name: of the file and of the entry, for messages.

    Raises:
        ConfigError: if braces are unpaired, or hold more than a name.
    """
    return split_fields(text, f"{noun}: {name}", "a field's name, like {input}")


def _fields_of(parts: Parts) -> set[str]:
    return {field for _, field in parts if field is not None}


def fill(parts: Parts, values: Mapping[str, str]) -> str:
    """The text with these values of its fields."""
    return "".join(literal + ("" if field is None else values[field]) for literal, field in parts)


@dataclass(frozen=True)
class MessageTemplate:
    """Messages with fields of a row, as in a baseline or a judge's rubric.

    Args:
        messages: role and text of each.
    """

    messages: tuple[tuple[str, str], ...]
    parameter: ClassVar[str]
    """Parameter that names its file, for error messages."""
    own_fields: ClassVar[tuple[str, ...]]
    """Names of the fields that are not columns."""
    of_program: ClassVar[bool] = False
    """Whether the prompt is one of a program, as in `PromptTemplate`."""

    @property
    def document(self) -> dict[str, Any]:
        return {"messages": [{"role": role, "content": text} for role, text in self.messages]}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the row that it names."""
        return tuple(field for field in self.fields if field not in self.own_fields)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """All that it names, each once."""
        return tuple(dict.fromkeys(field for parts in self._parts for _, field in parts if field is not None))

    @cached_property
    def _parts(self) -> list[Parts]:
        return [parsed(self.parameter, f"message {number}", text) for number, (_, text) in enumerate(self.messages, 1)]

    def filled(self, row: Exemplar, **values: str) -> list[tuple[str, str]]:
        """The messages for a row; `values` are of its own fields."""
        texts = [fill(parts, {**dict(row.fields), INPUT: row.input, **values}) for parts in self._parts]
        return [(role, text) for (role, _), text in zip(self.messages, texts, strict=True)]

    @classmethod
    def read(cls, uri: str, sources: Sources, *, role: str) -> Any:
        """Read a template from a path or s3:// address: a YAML or JSON document, or a text, which is one message.

        Raises:
            DataError, StoreError: naming the file.
        """
        if PurePath(uri).suffix in (".yaml", ".yml", ".json"):
            return sources.document(cls.parameter, uri)
        return {"messages": [{"role": role, "content": sources.text(cls.parameter, uri).rstrip("\n")}]}


def read_template(uri: str, sources: Sources) -> PromptTemplate:
    """The template of a YAML file, a path or s3://; the default if none is named.

    Raises:
        ConfigError, DataError, StoreError: naming the file.
    """
    if not uri or uri == ROWS:
        return PromptTemplate(exemplars="rows") if uri else PromptTemplate()
    document = sources.document("prompt", uri)
    if not isinstance(document, dict):
        raise DataError(f"prompt={uri}: entries like `query: ...` are needed, found {type(document).__name__}")
    if document.get("exemplars") == ROWS:
        raise ConfigError(
            "prompt: exemplars=rows is of runs with evaluate, which write no prompts; write text or turns"
        )
    return PromptTemplate.of(document)


def exemplar_text(exemplar: Exemplar) -> str:
    """`Input: ...`, newline, `Output: ...`: what the embedder reads, whatever the prompt looks like."""
    return f"Input: {exemplar.input}\nOutput: {exemplar.output}"


def instruction_text(instruction: str) -> str:
    """Text of an instruction before exemplars."""
    return f"Instruction: {instruction}\n\n" if instruction else ""


MOST_OUTPUTS = 20
"""Possible ends of an `Input: `, for inputs that contain lines beginning with `Output:`."""


def shown_inputs(text: str) -> Iterator[str]:
    """The rows of a text by the default template: from `Input: ` at the beginning of a line to `Output:` of a later."""
    for begin in re.finditer(r"^Input: ", text, re.MULTILINE) if "Input: " in text else ():
        end = begin.end() - 1
        for _ in range(MOST_OUTPUTS):
            end = text.find("\nOutput:", end + 1)
            if end < 0:
                break
            yield text[begin.end() : end]
