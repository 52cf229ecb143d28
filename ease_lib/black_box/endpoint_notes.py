"""Knowledge of an endpoint, kept in `store_uri` from run to run: what it refuses, and which model gave which answers.

Kept answers belong to a generation, which is named by the revision that the answering model reports. If the model
behind a name changes, another generation is used, and the former one again if it changes back. `llm_refresh` may start
a new generation of the same revision. Older generations stay, for the lineage of the runs that used them.

A run keeps the generation that it began with. Answers that it receives from another revision are kept under the
generation of that revision, where a continuation of the run finds them. If two revisions answer by turns (a balancer in
front of two versions), each finds the answers that the other received since, so that nothing is paid for twice.

A note carries its own digest. The next run and `lineage verify` report a note that was changed by hand; later runs
change notes legitimately.
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
class Generation:
    """Kept answers of one revision of the model.

    Args:
        answers: its name, part of the keys of its answers.
        since: when it began (ISO 8601), empty for the first.
        revision: what the model called itself, where that is more than the name it was asked by; empty is unknown.
        probe: answers to the fixed prompts, by prompt.
        beside: generations whose answers count too, by name, from when on (ISO 8601).
    """

    answers: str = FIRST
    since: str = ""
    revision: str = ""
    probe: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    def fits(self, revision: str, probe: Mapping[str, str]) -> bool:
        """Whether kept answers may come from the model that now has this revision and answers the probe like this."""
        same = not (revision and self.revision) or revision == self.revision
        return same and all(self.probe.get(prompt, answer) == answer for prompt, answer in probe.items())


@dataclass(frozen=True, kw_only=True)
class EndpointKnowledge:
    """Knowledge of one endpoint.


    Args:
        left_out: parameters that it refuses.
        current: the generation that a run takes that does not know better.
        earlier: others, the latest first.
    """

    left_out: tuple[str, ...] = ()
    current: Generation = field(default_factory=Generation)
    earlier: tuple[Generation, ...] = ()

    @property
    def generations(self) -> tuple[Generation, ...]:
        return (self.current, *self.earlier)

    def named(self, answers: str) -> Generation:
        """The generation of this name; an empty one if it is unknown."""
        return next((each for each in self.generations if each.answers == answers), Generation(answers=answers))

    def with_current(self, current: Generation) -> EndpointKnowledge:
        others = (each for each in self.generations if each.answers != current.answers)
        return replace(self, current=current, earlier=tuple(others))

    def with_changed(self, changed: Generation) -> EndpointKnowledge:
        """Knowledge with this generation changed or added; the current generation stays current."""
        if changed.answers == self.current.answers:
            return replace(self, current=changed)
        others = tuple(each for each in self.earlier if each.answers != changed.answers)
        return replace(self, earlier=(changed, *others))

    def begun(self, revision: str, stamp: str, probe: Mapping[str, str]) -> Generation:
        """Begin a new generation, named by its revision, unless there are answers under that name."""
        is_taken = not revision or any(each.answers == revision for each in self.generations)
        name = f"{stamp} {revision}".strip() if is_taken else revision
        return Generation(answers=name, since=stamp, revision=revision, probe=probe)


class _Generation(TypedDict):
    answers: str
    since: str
    revision: str
    probe: dict[str, str]
    beside: NotRequired[dict[str, str]]


class _Note(_Generation):
    """A note as it is stored, the current generation first; older versions stored only that, the oldest without a
    digest."""

    left_out: list[str]
    earlier: NotRequired[list[_Generation]]
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
    ) -> Generation:
        """The generation for a run that begins: that of the current revision, or a new one if the policy asks for it.

        Args:
            policy: `llm_refresh`.
            revision: what the model calls itself now; empty if that says nothing.
            probe: its answers to the fixed prompts; only for the policy `probe`.
        """
        moment = now or datetime.now(UTC)
        stamp = moment.isoformat(timespec="microseconds")

        def change(known: EndpointKnowledge) -> EndpointKnowledge:
            found = next((each for each in known.generations if each.fits(revision, probe)), None)
            if found is None or _is_due(found, policy, moment):
                return known.with_current(known.begun(revision, stamp, probe))
            met = replace(found, revision=revision or found.revision, probe={**found.probe, **probe})
            return known.with_current(met)

        return self._change(change).current

    def mixed(self, own: str, revision: str, since: str, *, by_turns: bool) -> Generation:
        """The generation of another revision that answers a run of generation `own`, whose answers count for that run
        too; and its own for the other, where both answer by turns.

        Args:
            since: when the run began (ISO 8601).
        """

        def change(known: EndpointKnowledge) -> EndpointKnowledge:
            other = next((each for each in known.generations if each.revision == revision), None)
            other = other or known.begun(revision, since, {})
            mine = known.named(own)
            if by_turns:
                other = replace(other, beside={own: since, **other.beside})
            mine = replace(mine, beside={other.answers: since, **mine.beside})
            return known.with_changed(other).with_changed(mine)

        changed = self._change(change)
        return next(each for each in changed.generations if each.revision == revision)

    def keep_revision(self, own: str, revision: str) -> None:
        """Note the revision of a generation, which was unknown."""
        self._change(lambda known: known.with_changed(replace(known.named(own), revision=revision)))

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
                "notice: %s in store_uri has no digest: an older version of EASE, or another program, wrote it",
                self._name,
            )
        elif not is_whole(content):
            raise self._damaged("its digest does not match its content")
        self._goes_by(content)
        return EndpointKnowledge(
            left_out=tuple(found["left_out"]),
            current=_generation(found),
            earlier=tuple(map(_generation, found.get("earlier", []))),
        ), content

    def _damaged(self, why: str) -> StoreError:
        return StoreError(
            f"{self._name} in store_uri is damaged or was edited by hand ({why}); remove it, and the next run "
            "examines the endpoint afresh"
        )

    def _change(self, change: Callable[[EndpointKnowledge], EndpointKnowledge]) -> EndpointKnowledge:
        """Change the current note, safely if other processes change it at the same time."""
        for _ in range(MOST_TRIES):
            notes, before = self._read()
            changed = change(notes)
            if self._store is None or (before and changed == notes):
                return changed
            current, earlier = asdict(changed.current), [asdict(each) for each in changed.earlier]
            said = {**self._asked, "left_out": list(changed.left_out), **current, "earlier": earlier}
            content = json.dumps({**said, "digest": _digest(said)}).encode()
            if self._store.swap(self._name, content, before):
                self._goes_by(content)
                return changed
        raise StoreError(f"{self._name} in store_uri keeps changing because another run writes it; try again")

    def _goes_by(self, content: bytes | None) -> None:
        if self._store and content:
            self._met.entry(self._store.uri, self._name, content)


def _digest(said: Mapping[str, Any]) -> str:
    return sha256_of_json({name: value for name, value in said.items() if name != "digest"})


def is_whole(content: bytes) -> bool:
    """Whether a note is intact, as we wrote it."""
    try:
        said = json.loads(content)
        return bool(said["digest"] == _digest(said))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _generation(found: _Generation) -> Generation:
    names = ("answers", "since", "revision", "probe")
    return Generation(**{name: found[name] for name in names}, beside=found.get("beside", {}))  # type: ignore[literal-required]


def _is_due(generation: Generation, policy: str, moment: datetime) -> bool:
    if policy.isdigit():
        since = datetime.fromisoformat(generation.since) if generation.since else None
        return since is None or moment - since > timedelta(days=int(policy))
    return policy == "always"
