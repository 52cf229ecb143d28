"""Follow records from a prompt back to the raw data, wherever they are stored now.

A record links to the records of its inputs by URI and SHA-256, and holds its own place. If a record with that content
is found elsewhere, below the place that was asked for, files next to it are looked for there too; any other moved file
counts as missing. A published version holds copies of all records of its chain.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from ease_lib.artifacts.store import Store, joined, open_file, open_store, read_all
from ease_lib.digests import sha256_of
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import LineageError, StoreError
from ease_lib.lineage.faults import CHANGED, MISSING, UNRECORDED, Fault
from ease_lib.lineage.record import Record, decode
from ease_lib.lineage.shapes import LatestShape
from ease_lib.notes import PACKAGE


def absolute(uri: str) -> str:
    """The absolute address, without `file://` and a slash at the end."""
    return open_store(uri).uri.rstrip("/") or "/"


def same_place(uri: str) -> str:
    """Canonical form of all addresses of the same file or object, for comparing them."""
    uri = absolute(uri)
    return uri if "://" in uri else os.path.realpath(uri)


def shipped(uri: str) -> bytes | None:
    """Content of a file in one of EASE's packages; None for any other. Nothing is imported for it."""
    package, _, path = uri.removeprefix(PACKAGE).partition("/")
    root = Path(str(resources.files("ease_lib"))).resolve()
    file = root.parent.joinpath(*package.split("."), path).resolve()
    return file.read_bytes() if file.is_relative_to(root) and file.is_file() else None


RECORD_FILE = "lineage.json"
"""File of the last stage's record in the results of a run on one machine."""
ARTIFACT = "lineage"
"""The artifact of every component, a folder with the record of each of its stages, `STAGE.json`."""
MANIFEST_CONTRACT = "published_prompt/1"
VERSION_FILE, LATEST_FILE, COPIES, VERSIONS = "version.json", "latest.json", "records", "versions"
WITHDRAWN = b'{"version": null}\n'
"""Content of latest.json while it is being removed, so that no other process moves it in the meantime."""
LAST_STAGES = ("publish", "report")


def versions_in(names: Iterable[str]) -> list[str]:
    """Published versions by the names of files in their folder, the oldest first."""
    return sorted({name.split("/")[1] for name in names if name.startswith(f"{VERSIONS}/")})


@dataclass(frozen=True, kw_only=True)
class Step:
    """A record, and where it was read."""

    uri: str
    content: bytes
    record: Record

    @property
    def id(self) -> str:
        return str(self.record["attempt"]["id"])

    @property
    def stage(self) -> str:
        return str(self.record["stage"])

    @property
    def sha256(self) -> str:
        return sha256_of(self.content)


def step_of(uri: str, content: bytes | None) -> Step:
    """The record with this content.

    Raises:
        LineageError: when it is not a record, or not as it was written.
    """
    return Step(uri=uri, content=content or b"", record=decode(content or b"", uri))


def stage_of(uri: str) -> str:
    """The stage of a record, from its file name: `runs/RUN/STAGE-ATTEMPT.json`, or `lineage/STAGE.json`."""
    return uri.rpartition("/")[2].removesuffix(".json").partition("-")[0]


def split_root(uri: str) -> tuple[str, str]:
    """Lineage root of a record, and its name there."""
    root, _, rest = uri.rpartition("/runs/")
    return root, f"runs/{rest}"


_RECORD = re.compile(rf"(^|/)({ARTIFACT}/[a-z_]+|runs/[^/]+/[a-z_]+-[0-9a-f-]{{36}})\.json$")


def is_record(uri: str) -> bool:
    """Whether a file is by its address the record of a stage: among the artifacts of a run, or in a lineage root."""
    return bool(_RECORD.search(uri))


class Place:
    """Place in which to look for files that records name: their own URI, or the folder to which they were moved.

    Args:
        uri: the folder that was asked for; empty when there was none.
        moved_from: folders whose content was moved to it, as its owner says.
    """

    def __init__(self, uri: str = "", moved_from: Sequence[str] = ()) -> None:
        self.uri = uri
        self._told = [(absolute(folder), uri) for folder in moved_from]
        self._seen: list[tuple[str, str]] = []

    def look_for_move(self, step: Step) -> None:
        """Learn of a moved folder from a record that is below the place with the same content."""
        attempt = step.record["attempt"]
        lay_at = [uri for uri in (attempt["record"], *attempt["copies"].values()) if uri]
        if not self.uri or any(self.found(uri) == step.content for uri in lay_at):
            return
        store = open_store(self.uri)
        for name in filter(is_record, store.walk_names()):
            if store.read(name) == step.content:
                moves = [_without_common_end(uri, store.address(name)) for uri in lay_at]
                self._seen += [(old, new) for (old, new), uri in zip(moves, lay_at, strict=True) if old != uri]

    def addresses(self, uri: str) -> list[str]:
        """Addresses where a file may lie, in the order in which they are tried."""
        told = [new + uri[len(old) :] for old, new in self._told if _is_below(uri, old)]
        return told or [uri, *(new + uri[len(old) :] for old, new in self._seen if _is_below(uri, old))]

    def read(self, uri: str) -> bytes | None:
        """The content of a file or object, or None if there is none.

        Raises:
            StoreError: when the store cannot be asked.
        """
        if uri.startswith(PACKAGE):
            return shipped(uri)
        return next((content for each in self.addresses(uri) if (content := _content(each)) is not None), None)

    def where(self, uri: str) -> str:
        """The address at which `read` finds a file."""
        return next((each for each in self.addresses(uri) if _content(each) is not None), uri)

    def found(self, uri: str) -> bytes | None:
        """Read like `read`; also None if the store cannot be reached."""
        with suppress(StoreError):
            return self.read(uri)
        return None

    def store_of(self, uri: str) -> Store:
        """The folder of this URI, or the one that it was moved to."""
        first, *others = self.addresses(uri)
        is_there = "://" in first or Path(first).exists()
        return open_store(first if is_there or not others else others[0])

    def path_of(self, uri: str) -> Path:
        """New path of a local file that was moved; else the path itself."""
        return next((path for path in map(Path, self.addresses(uri)) if path.exists()), Path(uri))


def _content(uri: str) -> bytes | None:
    if "://" not in uri and Path(uri).exists() and not Path(uri).is_file():
        return None  # a device or a pipe that a record names would never end
    folder, name = open_file(uri)
    try:
        return folder.read(name)
    except (ValueError, OSError) as error:
        raise LineageError(f"{uri[:200]!r} cannot be read: {error}") from error


def _is_below(uri: str, folder: str) -> bool:
    return f"{uri}/".startswith(f"{folder}/")


def _without_common_end(one: str, other: str) -> tuple[str, str]:
    """Both addresses without their common ending of folders and name."""
    first, second = one.split("/"), other.split("/")
    while first and second and first[-1] == second[-1]:
        first.pop()
        second.pop()
    return "/".join(first), "/".join(second)


@dataclass(kw_only=True)
class Chain:
    """The records behind a result, the last stage first, each one before those that it depends on.

    Args:
        place: where what they name is looked for.
        beside: other records of the same run: failed attempts, and stages that pass parameters only.
        version: folder of the published version that it was followed from, if it was.
    """

    place: Place
    steps: list[Step]
    beside: list[Step] = field(default_factory=list)
    gaps: list[Fault] = field(default_factory=list)
    version: str = ""

    @property
    def head(self) -> Step:
        return self.steps[0]

    @property
    def everything(self) -> list[Step]:
        """All records, in the order in which the stages started."""
        return sorted([*self.steps, *self.beside], key=lambda step: str(step.record["started"]))

    def step_of(self, stage: str) -> Step | None:
        """The record of a stage behind the result."""
        return next((step for step in [*self.steps, *self.beside] if step.stage == stage), None)

    def lacks(self, uri: str, what: str, reason: str, stage: str = "publish") -> None:
        """Note a gap once: a record that cannot be followed, or an input of unknown origin."""
        of_publication = uri.endswith((f"/{LATEST_FILE}", f"/{VERSION_FILE}"))
        why = reason if what == UNRECORDED else "" if of_publication else "lineage record"
        gap = Fault(stage=stage, uri=uri, what=what, why=why, reason=reason)
        if gap not in self.gaps:
            self.gaps.append(gap)

    def output(self, step: Step, name: str) -> bytes:
        """The content of an artifact that a stage made.

        Raises:
            LineageError: when it is gone.
        """
        uri = next((str(part["uri"]) for part in step.record["outputs"] if part["name"] == name), "")
        if not uri:
            raise LineageError(f"the record of {step.stage} names no {name}: {step.uri}")
        content = self.place.read(uri)
        if content is None:
            raise LineageError(f"{uri}, which {step.stage} made, is gone: retention or `ease forget` deleted it")
        return content


def follow(uri: str, run: str = "", moved_from: Sequence[str] = ()) -> Chain:
    """The chain of a run's folder, a published prompt, a lineage root or a record.

    Args:
        uri: folder or s3://.
        run: id of the run, where the place holds several; else the newest.
        moved_from: folders whose content was moved there.

    Raises:
        LineageError: when no record is there.
    """
    uri = absolute(uri)
    chain = Chain(place=Place(uri, moved_from), steps=[])
    store = open_store(uri)
    chain.version = version = uri if store.read(VERSION_FILE) is not None else _latest_version(uri, store, chain)
    copies = _copies(version) if version else {}
    chain.steps.append(_published_head(version, chain, copies) if version else _head(uri, store, run))
    chain.place.look_for_move(chain.head)
    _walk(chain, copies)
    _add_beside(chain)
    known = {step.id for step in chain.everything}
    chain.beside += [step for step in _copied(copies) if step.id not in known]  # the copy alone is left of these
    if version:
        _expect_publisher(version, chain)
    return chain


def chain_behind(part: Record, stage: str) -> Chain:
    """The chain of an input of a stage that is running."""
    place = Place()
    chain = Chain(place=place, steps=[])
    step = _linked(part, stage, chain, {})
    if step is None:
        raise LineageError(chain.gaps[0].reason)
    chain.steps.append(step)
    _walk(chain, {})
    _add_beside(chain)
    return chain


def _walk(chain: Chain, copies: dict[str, bytes]) -> None:
    """Append the records behind the existing ones, each once and after all records that depend on it."""
    seen: dict[str, Step] = {}
    linked: dict[tuple[str, str], Step | None] = {}
    order: list[str] = []

    def visit(step: Step) -> None:
        if step.id in seen:
            return
        seen[step.id] = step
        for part in step.record["inputs"]:
            link = part.get("record", part["uri"]), part.get("record_sha256", "")
            if link not in linked:
                linked[link] = _linked(part, step.stage, chain, copies)
            behind = linked[link]
            if behind is not None:
                visit(behind)
        order.append(step.id)

    visit(chain.steps[0])
    chain.steps = [seen[each] for each in reversed(order)]


def _linked(part: Record, stage: str, chain: Chain, copies: dict[str, bytes]) -> Step | None:
    """The record that an input links to; a gap if it cannot be read or is another one."""
    uri, expected = part.get("record", ""), part.get("record_sha256", "")
    if not uri:
        chain.lacks(part["uri"], UNRECORDED, f"no record says which stage made {part['uri']}", stage)
        return None
    kind, reason = MISSING, "is missing"
    for content in (chain.place.found(uri), copies.get(expected)):
        if content is None:
            continue
        if sha256_of(content) == expected:
            return step_of(uri, content)
        kind, reason = CHANGED, "is not the record that the next stage found"
    chain.lacks(uri, kind, f"{uri} {reason}", stage_of(uri))
    return None


def record_copies(records: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files of a version that keep records by attempt."""
    return {f"{COPIES}/{name}.json": content for name, content in records.items()}


def _copies(uri: str) -> dict[str, bytes]:
    """Records that lie next to a published version, by SHA-256."""
    try:
        store = open_store(uri)
        contents = read_all(store, [f"{COPIES}/{name}" for name in store.find_names(COPIES)])
    except StoreError:
        return {}
    return {sha256_of(content): content for content in contents.values() if content is not None}


def _head(uri: str, store: Store, run: str) -> Step:
    """The first record to follow, if no prompt was published."""
    single = store.read(RECORD_FILE)
    if single is None and uri.endswith(".json"):
        parent, name = open_file(uri)
        single = parent.read(name)
    if single is not None:
        return step_of(uri, single)
    candidates = list(_records_below(store, run))
    if not candidates:
        raise LineageError(
            f"{uri}: no lineage record {f'of run {run} ' if run else ''}is there; give the folder of a run, a "
            "published version, or the lineage root (lineage_uri, or lineage/ in store_uri)"
        )
    last = [step for step in candidates if step.stage in LAST_STAGES and step.record["state"] == "complete"]
    return max(last or candidates, key=lambda step: (step.record["started"], step.uri))


def _latest_version(uri: str, store: Store, chain: Chain) -> str:
    """The folder of the latest version below one of published prompts; empty if nothing is published.

    Where latest.json is damaged or gone, the newest version stands for it, and the chain has a gap.
    """
    content = store.read(LATEST_FILE)
    is_run = content is None and store.read(RECORD_FILE) is not None
    versions = [] if is_run else versions_in(store.walk_names())
    if content is None and not versions:
        return ""
    folder = joined(uri, VERSIONS)
    where = joined(uri, LATEST_FILE)
    try:
        latest = parsed(LatestShape, content)
        version = latest["version"] if latest["version"] in versions else None
        manifest = store.read(f"{VERSIONS}/{version}/{VERSION_FILE}") or b""
        is_whole = not manifest or sha256_of(manifest) == latest["sha256"] or _is_damaged(manifest)
    except Misfit:
        version, is_whole = None, False
    if not (version and is_whole):
        kind, state = (MISSING, "missing") if content in (None, WITHDRAWN) else (CHANGED, "not as it was written")
        chain.lacks(where, kind, f"{where} is {state}")
    return f"{folder}/{version or versions[-1]}"


def _is_damaged(manifest: bytes) -> bool:
    with suppress(LineageError):
        return not decode(manifest, "", MANIFEST_CONTRACT)
    return True


def _published_head(version: str, chain: Chain, copies: dict[str, bytes]) -> Step:
    """The record that made a version's prompt; from the copies where the version's own file is damaged."""
    where = joined(version, VERSION_FILE)
    content = open_store(version).read(VERSION_FILE)
    try:
        if content is None:
            chain.lacks(where, MISSING, f"{where} is missing")
        else:
            head = decode(content, where, MANIFEST_CONTRACT)["head"]
            step = _linked({**head, "uri": where}, "publish", chain, copies)
            if step is not None:
                return step
    except LineageError as error:
        chain.lacks(where, CHANGED, str(error))
    for step in _copied(copies):
        if step.stage == "report":
            return step
    raise LineageError(", and ".join(gap.reason for gap in chain.gaps))


def _copied(copies: dict[str, bytes]) -> Iterator[Step]:
    """Records from copies next to a published version."""
    for content in copies.values():
        with suppress(LineageError):
            record = decode(content, COPIES)
            yield Step(uri=record["attempt"]["record"], content=content, record=record)


def _records_below(store: Store, run: str) -> Iterator[Step]:
    """Yield the records in a lineage root or among a pipeline's artifacts, those of the last stages if they exist."""
    names = [name for name in store.walk_names() if is_record(joined(store.uri, name))]
    names = [name for name in names if not run or run in name.split("/")]
    names = [name for name in names if stage_of(name) in LAST_STAGES] or names
    for name, content in read_all(store, names).items():
        with suppress(LineageError):  # verify names it
            yield step_of(store.address(name), content)


def _add_beside(chain: Chain) -> None:
    """The other records of the run, from the root that the head lies in."""
    link = chain.head.record["attempt"]["record"]
    if not link:
        return
    folder = link.rpartition("/")[0]
    known = {step.id for step in chain.steps}
    try:
        store = chain.place.store_of(folder)
        contents = read_all(store, store.find_names())
    except StoreError:
        return
    for name, content in contents.items():
        uri = f"{folder}/{name}"
        step = None
        with suppress(LineageError):
            step = step_of(uri, content)
        if step is None or not name.endswith(f"{step.id}.json"):
            if all(gap.uri != uri for gap in chain.gaps) and not any(name.endswith(f"{each}.json") for each in known):
                chain.lacks(uri, CHANGED, f"{name} is not as it was written", stage_of(uri))
        elif step.id not in known:
            chain.beside.append(step)


def _expect_publisher(version: str, chain: Chain) -> None:
    """Note a gap if the record of the publishing attempt is gone; no other record links to it."""
    content = open_store(version).read(VERSION_FILE)
    with suppress(LineageError):
        uri = decode(content or b"", version, MANIFEST_CONTRACT)["published_by"]
        known = [step.record["attempt"]["record"] for step in chain.everything] + [gap.uri for gap in chain.gaps]
        if uri and uri not in known:
            chain.lacks(uri, MISSING, f"{uri} is missing")
