"""What is known of an endpoint from run to run, in `store_uri`: what it refuses, and which kept answers are current.

Kept answers belong to a generation. A new one begins when the model behind the name is another one, as its own revision
says, or as `llm_refresh` asks for: then nothing that was answered before is used. Older generations stay where they
are, for the lineage of the runs that rest on them.

A note carries its own digest, so who changed one by hand is told of it, by the next run and by `lineage verify`. Later
runs change it by right.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired

from typing_extensions import TypedDict

from ease_lib.artifacts.store import Store
from ease_lib.black_box.llm_identity import FIRST, LLMIdentity
from ease_lib.digests import sha256_of_json
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import StoreError
from ease_lib.notes import Notes

FOLDER = "endpoints"
MOST_TRIES = 20
logger = logging.getLogger("ease")


@dataclass(frozen=True, kw_only=True)
class EndpointKnowledge:
    """What is known of an endpoint.

    Args:
        left_out: parameters that it refuses.
        answers: the current generation.
        since: when that began (ISO 8601), empty for the first.
        revision: what the model called itself, where that is more than the name it was asked by.
        probe: answers to the fixed prompts, by prompt.
    """

    left_out: tuple[str, ...] = ()
    answers: str = FIRST
    since: str = ""
    revision: str = ""
    probe: Mapping[str, str] = field(default_factory=dict)


class _Note(TypedDict):
    """As it is kept; older versions kept no digest."""

    left_out: list[str]
    answers: str
    since: str
    revision: str
    probe: dict[str, str]
    digest: NotRequired[str]


class EndpointNotes:
    """The notes about one model behind one endpoint; without a store they are empty and nothing is kept.

    Args:
        met: notes of the stage, for its lineage record.
    """

    def __init__(self, store: Store | None, asked: LLMIdentity, met: Notes) -> None:
        self._store = store
        self._met = met
        self._asked = asked.endpoint_identity
        self._name = f"{FOLDER}/{asked.endpoint_key}.json"

    def read(self) -> EndpointKnowledge:
        return self._read()[0]

    def keep_left_out(self, left_out: frozenset[str]) -> None:
        self._change(lambda notes: replace(notes, left_out=tuple(sorted(left_out))))

    def refreshed(
        self, policy: str, revision: str, probe: Mapping[str, str], *, now: datetime | None = None
    ) -> EndpointKnowledge:
        """The notes for a run that begins: of a new generation where there is a reason for one.

        Args:
            policy: `llm_refresh`.
            revision: what the model calls itself now; empty if that says nothing.
            probe: its answers to the fixed prompts; only for the policy `probe`.
        """
        moment = now or datetime.now(UTC)

        def change(notes: EndpointKnowledge) -> EndpointKnowledge:
            met = replace(notes, revision=revision or notes.revision, probe={**notes.probe, **probe})
            if not _is_due(notes, policy, revision, probe, moment):
                return met
            stamp = moment.isoformat(timespec="microseconds")
            return replace(met, answers=f"{stamp} {revision}".strip(), since=stamp)

        return self._change(change)

    def _read(self) -> tuple[EndpointKnowledge, bytes | None]:
        content = self._store.read(self._name) if self._store else None
        if content is None:
            return EndpointKnowledge(), None
        try:
            found = parsed(_Note, content)
        except Misfit as error:
            raise self._damaged(str(error)) from None
        if "digest" not in found:
            logger.info(
                "notice: %s in store_uri has no digest: an older version of EASE wrote it, or somebody", self._name
            )
        elif not is_whole(content):
            raise self._damaged("it does not have the digest that it carries")
        self._goes_by(content)
        return EndpointKnowledge(
            left_out=tuple(found["left_out"]),
            answers=found["answers"],
            since=found["since"],
            revision=found["revision"],
            probe=found["probe"],
        ), content

    def _damaged(self, why: str) -> StoreError:
        return StoreError(
            f"{self._name} in store_uri is damaged, or was changed by hand ({why}); remove it, and the endpoint is met "
            "anew"
        )

    def _change(self, change: Callable[[EndpointKnowledge], EndpointKnowledge]) -> EndpointKnowledge:
        """Change what is there now, whoever else changes it at the same time."""
        for _ in range(MOST_TRIES):
            notes, before = self._read()
            changed = change(notes)
            if self._store is None or (before and changed == notes):
                return changed
            said = {**self._asked, **asdict(changed)}
            content = json.dumps({**said, "digest": _digest(said)}).encode()
            if self._store.swap(self._name, content, before):
                self._goes_by(content)
                return changed
        raise StoreError(f"{self._name} in store_uri changes all the time; another run writes it, try again")

    def _goes_by(self, content: bytes | None) -> None:
        if self._store and content:
            self._met.entry(self._store.uri, self._name, content)


def _digest(said: Mapping[str, Any]) -> str:
    return sha256_of_json({name: value for name, value in said.items() if name != "digest"})


def is_whole(content: bytes) -> bool:
    """Whether a note is as one of us wrote it."""
    try:
        said = json.loads(content)
        return bool(said["digest"] == _digest(said))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _is_due(notes: EndpointKnowledge, policy: str, revision: str, probe: Mapping[str, str], moment: datetime) -> bool:
    if revision and notes.revision and revision != notes.revision:
        return True
    if policy == "probe":
        known = [prompt for prompt in probe if prompt in notes.probe]
        return any(probe[prompt] != notes.probe[prompt] for prompt in known)
    if policy.isdigit():
        since = datetime.fromisoformat(notes.since) if notes.since else None
        return since is None or moment - since > timedelta(days=int(policy))
    return policy == "always"
