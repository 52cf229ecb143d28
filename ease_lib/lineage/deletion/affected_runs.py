"""The runs that have left something in places: their records, and where tombstones of theirs belong."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from ease_lib.artifacts.store import S3_CONNECTIONS, Store, joined, open_store
from ease_lib.errors import LineageError, StoreError
from ease_lib.lineage.addresses import Place
from ease_lib.lineage.chain import COPIES, RECORD_FILE, Chain, Step, is_record
from ease_lib.lineage.record import decode
from ease_lib.lineage.verification import checks_of
from ease_lib.notes import PACKAGE

_RECORD = re.compile(r"^(?P<root>.*?/?)runs/(?P<run>[^/]+)/[a-z_]+-[0-9a-f-]{36}\.json$")


@dataclass(frozen=True, kw_only=True)
class RunAt:
    """A run, and where its tombstones go.

    Args:
        root: its lineage root; where that cannot be reached, the place where the run was found.
        chain: its records, in no order that means anything.
    """

    root: str
    chain: Chain

    @property
    def id(self) -> str:
        return str(self.chain.head.record["run"]["id"])

    def names(self, digests: Collection[str], uris: Collection[str]) -> bool:
        """Whether its records name one of these contents, or something that lies there."""
        checks = (check for step in self.chain.everything for check in checks_of(step, self.chain))
        return any(check.sha256 in digests or check.uri in uris for check in checks)

    def sources(self) -> set[str]:
        """Folders and files that it read or wrote and that may hold rows: raw data, artifacts, answers, prompts."""
        records = [step.record for step in self.chain.everything]
        holders = {holder for record in records for key in ("entries", "written") for holder in record.get(key, {})}
        outputs = [str(part["uri"]) for record in records for part in record["outputs"]]
        artifacts = {common_folder(outputs)}
        read = {str(file["uri"]) for record in records for file in record.get("files_read", [])}
        return {uri.rstrip("/") for uri in artifacts | holders | read if _may_hold_rows(uri)}


def runs_at(places: Sequence[str]) -> list[RunAt]:
    """Every run of which something lies at these places, and the others of its lineage root; the oldest first."""
    found: dict[str, RunAt] = {}
    for place in places:
        store = open_store(place)
        names = store.walk_names()
        roots = {joined(store.uri, match["root"]).rstrip("/") for match in map(_RECORD.match, names) if match}
        records = _documents(store, names)
        linked = {str(step.record["attempt"]["record"]).rpartition("/runs/")[0] for step in records}
        for root in sorted(roots | (linked - {""})):
            for run in _runs(root, _records_of(root), place):
                found.setdefault(run.id, run)
        for run in _runs(store.uri.rstrip("/"), records, place):
            found.setdefault(run.id, run)
    return sorted(found.values(), key=lambda run: str(run.chain.everything[0].record["started"]))


def common_folder(uris: Sequence[str]) -> str:
    """The folder that all of these lie in; empty where there is none."""
    parts = [uri.split("/")[:-1] for uri in uris]
    common = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def _may_hold_rows(uri: str) -> bool:
    is_folder = bool(uri.rstrip("/")) and not uri.endswith(":/")
    return is_folder and "/journals/" not in uri and not uri.startswith(PACKAGE)


def _runs(root: str, steps: Iterable[Step], place: str) -> Iterator[RunAt]:
    by_run: dict[str, list[Step]] = {}
    for step in steps:
        by_run.setdefault(str(step.record["run"]["id"]), []).append(step)
    for found in by_run.values():
        yield RunAt(root=root, chain=Chain(place=Place(place), steps=found))


def _records_of(root: str) -> list[Step]:
    """All records of a lineage root; none where it cannot be reached."""
    try:
        store = open_store(f"{root}/runs")
        contents = list(_read(store, store.walk_names()))
    except StoreError:
        return []
    return [_step(store, name, content) for name, content in contents if _is_record(content)]


def _documents(store: Store, names: Sequence[str]) -> list[Step]:
    """Records beside what they are of: artifacts of the pipeline, results of a run, copies in published versions."""
    wanted = [
        name
        for name in names
        if is_record(joined(store.uri, name))
        or name.split("/")[-1] == RECORD_FILE
        or name.split("/")[-2:-1] == [COPIES]
        or "/" not in name
    ]
    steps = [_step(store, name, content) for name, content in _read(store, wanted) if _is_record(content)]
    distinct = {step.id: step for step in steps}
    return list(distinct.values())


def _read(store: Store, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
        for name, content in zip(names, readers.map(store.read, names), strict=True):
            yield name, content or b""


def _is_record(content: bytes) -> bool:
    with suppress(LineageError, UnicodeDecodeError):
        decode(content, "")
        return True
    return False


def _step(store: Store, name: str, content: bytes) -> Step:
    return Step(uri=joined(store.uri, name), content=content, record=decode(content, name))
