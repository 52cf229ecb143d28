"""Answers of the last search of a subject, for the next one on changed data.

An answer stays valid as long as its row and exemplars exist. Each search stores its answers in `searches/` of
`store_uri`, under its subject: the task, its scoring, and the endpoint. Exemplars, rows and instructions are named by
digests of their content, so no text is kept. The next search recalls the answers before it begins; on unchanged data it
is the same search again, and recalls what the former one recalled.

    SUBJECT/KEY.json       answers of a search; never changed
    SUBJECT/latest.json    name of the last one
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from typing_extensions import TypedDict

from ease_lib.artifacts.store import Store
from ease_lib.digests import key_of, sha256_of
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import StoreError
from ease_lib.notes import Notes
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.surrogate.answers import Answered, Answers
from ease_lib.tasks.base import Exemplar

logger = logging.getLogger("ease")

Kept = TypeVar("Kept")
FOLDER = "searches"
LATEST = "latest.json"
CONTRACT = "search_answers/1"


@dataclass(frozen=True, kw_only=True)
class Names:
    """Digests of all texts on which answers of a search depend, by position."""

    exemplars: Sequence[str]
    rows: Sequence[str]
    instructions: Sequence[str]

    @classmethod
    def of(cls, pool: Sequence[Exemplar], rows: Sequence[Exemplar], instructions: Sequence[str]) -> Names:
        return cls(
            exemplars=[_digest(row.input, row.output) for row in pool],
            rows=[_digest(row.input, *row.outputs) for row in rows],
            instructions=[_digest(text) for text in instructions],
        )


@dataclass(frozen=True, kw_only=True)
class RecalledAnswers:
    """Answers of an earlier search that hold for this one; `source` is the name of the file, empty for none."""

    source: str = ""
    sha256: str = ""
    answers: tuple[Answered, ...] = ()

    @property
    def count(self) -> int:
        return sum(len(rows) for _, rows, _ in self.answers)

    def key_of(self, search: str) -> str:
        """Key of the journal; it differs between searches that recalled different answers."""
        return f"{search[:16]}{self.sha256[:16]}" if self.sha256 else search


@dataclass(frozen=True, kw_only=True)
class _LastSearch:
    """Args: search: key of the search without what it recalled; recalled: name of the file that it did."""

    name: str
    search: str
    recalled: str


class _AnsweredPrompt(TypedDict):
    """Answers to a prompt: digests of its texts and of the rows."""

    instruction: str
    exemplars: list[str]
    rows: list[str]
    scores: list[float | None]


class _KeptAnswers(TypedDict):
    answers: list[_AnsweredPrompt]


class Memory:
    """Answers of the searches of a subject.

    Args:
        store: the run's.
        subject: digest of what answers depend on besides prompts.
    """

    def __init__(self, store: Store, subject: str, notes: Notes) -> None:
        self._store = store.below(FOLDER, subject)
        self._notes = notes

    def recall(self, search: str, names: Names) -> RecalledAnswers:
        """Return the answers of the last search on other data.

        Args:
            search: key of the search that asks.

        Raises:
            StoreError: when the file is damaged.
        """
        latest = self._latest()
        source = "" if latest is None else latest.recalled if latest.search == search else latest.name
        content = self._store.read(source) if source else None
        if content is None:
            return RecalledAnswers()
        sha256 = sha256_of(content)
        self._notes.file(f"{self._store.uri.rstrip('/')}/{source}", sha256, len(content))
        recalled = RecalledAnswers(
            source=source, sha256=sha256, answers=tuple(_known(self._parsed(_KeptAnswers, source, content), names))
        )
        if recalled.count:
            logger.info("recalled %d answers of an earlier search", recalled.count)
        return recalled

    def keep(self, key: str, search: str, recalled: RecalledAnswers, answers: Answers, names: Names) -> None:
        """Keep the answers of this search for the next one.

        Args:
            key: of the journal, which tells searches apart that recalled other answers.
        """
        entries = [
            {
                "instruction": names.instructions[instruction],
                "exemplars": [names.exemplars[position] for position in sequence],
                "rows": [names.rows[row] for row in rows],
                "scores": scores,
            }
            for (instruction, sequence), rows, scores in answers.by_prompt()
        ]
        name = f"{key}.json"
        self._store.write(name, _json({"contract": CONTRACT, "answers": entries}))
        self._store.write(LATEST, _json(asdict(_LastSearch(name=name, search=search, recalled=recalled.source))))

    def _latest(self) -> _LastSearch | None:
        content = self._store.read(LATEST)
        return self._parsed(_LastSearch, LATEST, content) if content else None

    def _parsed(self, kind: type[Kept], name: str, content: bytes) -> Kept:
        try:
            return parsed(kind, content)
        except Misfit as error:
            where = self._store.address(name)
            raise StoreError(f"{where} is damaged ({error}); remove it, and no answers are recalled") from None


class NoMemory:
    """Recalls nothing and keeps nothing."""

    def recall(self, search: str, names: Names) -> RecalledAnswers:
        return RecalledAnswers()

    def keep(self, key: str, search: str, recalled: RecalledAnswers, answers: Answers, names: Names) -> None:
        pass


def open_memory(store: Store | None, subject: str, notes: Notes) -> Memory | NoMemory:
    """The memory of a subject in the run's store; an empty one without a store."""
    return Memory(store, subject, notes) if store else NoMemory()


def _known(document: _KeptAnswers, names: Names) -> Iterator[Answered]:
    """The answers whose exemplars, row and instruction still exist; equal texts are matched one by one."""
    exemplars, rows, instructions = map(_Places, (names.exemplars, names.rows, names.instructions))
    taken: set[tuple[Prompt, int]] = set()
    for entry in document["answers"]:
        sequence, instruction = exemplars.all_of(entry["exemplars"]), instructions.all_of([entry["instruction"]])
        if sequence is None or instruction is None:
            continue
        prompt = (instruction[0], tuple(sequence))
        scored = zip(rows.of(entry["rows"]), entry["scores"], strict=True)
        kept = [(row, score) for row, score in scored if row is not None and (prompt, row) not in taken]
        taken.update((prompt, row) for row, _ in kept)
        if kept:
            yield prompt, tuple(row for row, _ in kept), tuple(score for _, score in kept)


class _Places:
    """Positions of texts by their digests."""

    def __init__(self, digests: Sequence[str]) -> None:
        self._places: dict[str, list[int]] = {}
        for position, digest in enumerate(digests):
            self._places.setdefault(digest, []).append(position)

    def of(self, digests: Sequence[str]) -> list[int | None]:
        """The n-th position of a text that occurs for the n-th time; None if there are fewer."""
        named: Counter[str] = Counter()
        found: list[int | None] = []
        for digest in digests:
            places = self._places.get(digest, [])
            found.append(places[named[digest]] if named[digest] < len(places) else None)
            named[digest] += 1
        return found

    def all_of(self, digests: Sequence[str]) -> list[int] | None:
        """Positions of all texts; None if one is missing."""
        found = [place for place in self.of(digests) if place is not None]
        return found if len(found) == len(digests) else None


def _digest(*texts: str) -> str:
    return key_of(texts)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
