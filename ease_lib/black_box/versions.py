"""Owners of kept answers, if one name stands for several versions of a model."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime

from ease_lib.black_box.endpoint_notes import EndpointNotes
from ease_lib.black_box.llm_identity import LLMIdentity

TURNS = 3
"""Number of times that the first revision must answer again after another one before both count as alternating: an
answer in flight when the model changed may arrive late."""
logger = logging.getLogger("ease")


class Versions:
    """Assigns the answers of one run to generations, by the revision of the model that gave them.

    Args:
        notes: of the endpoint.
        asked: by this name.
        generation: of the run; empty is the current one.
    """

    def __init__(self, notes: EndpointNotes, asked: LLMIdentity, generation: str = "") -> None:
        self._notes = notes
        self._model = asked.model
        known = notes.read()
        own = known.named(generation) if generation else known.current
        self.own = own.answers
        self._revision = own.revision
        self._began = datetime.now(UTC).isoformat(timespec="seconds")
        self._names = {each.revision: each.answers for each in known.generations if each.revision} | {
            self._revision: own.answers
        }
        self._beside = dict(own.beside)
        self._named = ""
        """The last revision named; an answer without a name is taken as one of this revision."""
        self._since_own: set[str] = set()
        """Other revisions that answered since the last answer of the run's revision."""
        self._turns: Counter[str] = Counter()
        self._first, self._was_mixed = "", False

    @property
    def beside(self) -> list[tuple[str, str]]:
        """Other generations whose answers count, with the time from which they count."""
        return list(self._beside.items())

    def generation_of(self, model: str) -> str:
        """Generation of an answer that the endpoint has just given, from the name that the model reports."""
        revision = model if model != self._model else self._named
        self._named = revision
        if revision and not self._revision:
            self._revision = revision
            self._names[revision] = self.own
            self._notes.keep_revision(self.own, revision)
        if not revision or revision == self._revision:
            for other in self._since_own:
                self._turns[other] += 1
                if self._turns[other] == TURNS:
                    self._mixed_with(other, by_turns=True)
            self._since_own.clear()
            return self.own
        if revision not in self._names or self._names[revision] not in self._beside:
            self._mixed_with(revision, by_turns=False)
        self._since_own.add(revision)
        return self._names[revision]

    def met(self, model: str) -> None:
        """Report once if an answer, new or kept, has another revision than the run or than the first answer."""
        if self._was_mixed or model == self._model:
            return
        self._first = self._revision or self._first or model
        if model == self._first:
            return
        self._was_mixed = True
        logger.info(
            "notice: answers of %s come from two versions, %s and %s; scores treat them as one",
            *(self._model, self._first, model),
        )

    def _mixed_with(self, revision: str, *, by_turns: bool) -> None:
        other = self._notes.mixed(self.own, revision, self._began, by_turns=by_turns)
        self._names[revision] = other.answers
        self._beside.setdefault(other.answers, self._began)
