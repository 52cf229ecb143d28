"""Recompute every digest behind a result, and report exactly what changed, is missing, or was never recorded.

Each fault names the object and the first stage that it affects: the one that wrote it, or the first that read it.
What follows from a fault is not reported again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock

from ease_lib.artifacts.store import Store, joined, open_store
from ease_lib.black_box import endpoint_notes
from ease_lib.black_box.cache import kept_entries
from ease_lib.digests import sha256_of
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import LineageError
from ease_lib.lineage.attestation import PublicKey
from ease_lib.lineage.chain import (
    LATEST_FILE,
    VERSIONS,
    WITHDRAWN,
    Chain,
    Step,
    absolute,
    follow,
    split_root,
    versions_in,
)
from ease_lib.lineage.deletion.tombstones import Tombstones
from ease_lib.lineage.faults import CHANGED, MISSING, UNPUBLISHED, Claim, Fault, faults_of
from ease_lib.lineage.publishing.versions import (
    PROMPTS,
    ROWS,
    latest_content,
    manifest_name,
    marks_of,
    read_version,
    roots_of_versions,
)
from ease_lib.lineage.record import Record, digest_of_files
from ease_lib.lineage.record_summary import summary_page
from ease_lib.lineage.recording import mark_content, mark_name
from ease_lib.lineage.shapes import LatestShape
from ease_lib.lineage.signatures import Signatures
from ease_lib.progress import Told, nobody


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Comparisons made, and their results.

    Args:
        signatures: those that hold, each with its key and time.
    """

    checked: int
    problems: tuple[Fault, ...]
    signatures: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not any(problem.is_fault for problem in self.problems)


def verify(chain: Chain, *, progress: Told = nobody) -> Verification:
    """Compare everything that the records of a chain name with the present files; report removals on request too."""
    found = [*chain.gaps]
    claims: dict[str, Claim] = {}
    for step in chain.everything:
        for claim in claims_of(step, chain):  # what a later attempt wrote again is as that one says
            first = claims.get(claim.uri, claim)
            claims[claim.uri] = replace(claim, stage=first.stage)
    for fault in found:
        claims.pop(fault.uri, None)
    found += faults_of(claims.values(), progress)
    found += _unexplained(chain)
    return Verification(checked=len(claims), problems=tuple(sorted(dict.fromkeys(found))))


def claims_of(step: Step, chain: Chain) -> Iterator[Claim]:
    """Everything that one record names, the record itself and its copies included."""
    record = step.record
    noted: set[str] = set()
    named = _record_digests(step)
    for part in record["outputs"]:
        files = part.get("files")
        named |= {joined(part["uri"], name): file["sha256"] for name, file in (files or {}).items()}
        named |= {part["uri"]: part["sha256"]} if files is None else {}
    named |= {read["uri"]: read["sha256"] for read in record.get("files_read", [])}
    lying = [*record.get("entries", {}).items(), *record.get("written", {}).items()]
    for holder, entries in lying:
        if holder.endswith((".jsonl", ".sqlite")):
            held = _once(partial(_parts, chain, holder))
            for name, sha256 in entries.items():
                read = partial(lambda held, name: held().get(name), held, name)
                yield Claim(stage=step.stage, uri=f"{holder}#{name}", sha256=sha256, read=read)
        else:
            named |= {joined(holder, name): sha256 for name, sha256 in entries.items()}
            noted |= {joined(holder, name) for name in entries if name.startswith(f"{endpoint_notes.FOLDER}/")}
    for uri, sha256 in named.items():
        later = {"follows": endpoint_notes.is_whole} if uri in noted else {}
        yield Claim(stage=step.stage, uri=uri, sha256=sha256, read=partial(chain.place.read, uri), **later)


def _record_digests(step: Step) -> dict[str, str]:
    """Digests of the record, its mark and its copies, by URI."""
    attempt = step.record["attempt"]
    digests = {}
    if attempt["record"]:
        root, name = split_root(attempt["record"])
        digests[attempt["record"]] = step.sha256
        digests[f"{root}/{mark_name(step.record)}"] = sha256_of(mark_content(step.record, name))
    if step.record["state"] == "complete":
        page = summary_page(step.record).encode()
        contents = {"lineage": step.content, "verdict": page, "chain": page}  # as it was called once
        digests |= {uri: sha256_of(contents[copy]) for copy, uri in attempt["copies"].items()}
    return digests


def _once(read: Callable[[], dict[str, bytes]]) -> Callable[[], dict[str, bytes]]:
    """A file that is read once, although many of its parts are compared in parallel."""
    lock, kept = Lock(), cache(read)

    def held() -> dict[str, bytes]:
        with lock:
            return kept()

    return held


def _parts(chain: Chain, holder: str) -> dict[str, bytes]:
    """Lines of a journal in one file by their number, from 1; of a cache in one file, its answers."""
    if holder.endswith(".sqlite"):
        return dict(kept_entries(chain.place.path_of(holder)))
    lines = (chain.place.read(holder) or b"").split(b"\n")
    return {str(number): line for number, line in enumerate(lines, 1) if line}


def _unexplained(chain: Chain) -> Iterator[Fault]:
    """Inputs that are not what the linked stage made, earlier attempts without a record, and folders' own digests."""
    for step in chain.steps:
        for part in step.record["inputs"]:
            if part.get("record") and not any(gap.uri == part["record"] for gap in chain.gaps):
                made = next((other for other in chain.steps if other.sha256 == part["record_sha256"]), None)
                if made and all(output["sha256"] != part["sha256"] for output in made.record["outputs"]):
                    yield Fault(stage=step.stage, uri=part["uri"], what=CHANGED, why=f"before {step.stage} read it")
        for part in step.record["outputs"]:
            if "files" in part and digest_of_files(part["files"]) != part["sha256"]:
                yield Fault(stage=step.stage, uri=part["uri"], what=CHANGED, why="digest of the folder")
    root = split_root(chain.head.record["attempt"]["record"])[0]
    for step in chain.everything if root else ():
        for name in step.record["attempt"]["earlier"]:
            if chain.place.read(f"{root}/{name}") is None:
                yield Fault(stage=step.stage, uri=f"{root}/{name}", what=MISSING, why="record of an earlier attempt")


def _result_claims(chain: Chain, folder: str) -> Iterator[Claim]:
    """Yield the claim that the results in the output folder of `ease run` are those that the report stage wrote."""
    report = chain.step_of("report")
    store = open_store(folder)
    if report is None or store.read("lineage.json") is None:
        return
    files = next(part["files"] for part in report.record["outputs"] if part["name"] == "results")
    wanted = {name: file["sha256"] for name, file in files.items()} | {"lineage.json": chain.head.sha256}
    for name, sha256 in wanted.items():
        yield _claim("report", store, name, sha256)


def _claim(stage: str, store: Store, name: str, sha256: str) -> Claim:
    return Claim(stage=stage, uri=store.address(name), sha256=sha256, read=partial(store.read, name))


def verify_versions(uri: str, *only: str) -> Iterator[Fault]:
    """Compare published versions below a folder with their manifests, their marks, and the latest.

    Args:
        only: the versions to compare; none given is all of them.
    """
    store = open_store(uri)
    manifests: dict[str, tuple[Record, str]] = {}
    gone: list[str] = []
    names = [] if only else store.walk_names()
    versions = sorted(only) or versions_in(names)
    marked = {name.rpartition("/")[2] for name in names if name.startswith((f"{ROWS}/", f"{PROMPTS}/"))}
    for version in versions:
        try:
            found = read_version(store, version)
        except LineageError as error:
            yield _of_version(store, version, CHANGED, str(error))
            continue
        if found is None:
            gone.append(version)
        else:
            manifests[version] = found
    followed = {str((manifest.get("previous") or {}).get("version")) for manifest, _ in manifests.values()}
    for version in gone:
        if only or version in marked | followed | {_named_latest(store)}:
            yield _of_version(store, version, MISSING, "without it there is no version")
        else:
            why = "nothing shows that it was a version: a run was killed there, or someone removed everything that did"
            yield _of_version(store, version, UNPUBLISHED, why)
    if versions:
        yield from _latest_faults(store, manifests)
    for version, (manifest, _) in manifests.items():
        previous = manifest.get("previous")
        if previous and previous["version"] in manifests and manifests[previous["version"]][1] != previous["sha256"]:
            yield _of_version(store, previous["version"], CHANGED, f"{version} recorded another digest")
        digests = {f"{VERSIONS}/{version}/{name}": file["sha256"] for name, file in manifest["files"].items()}
        digests |= {name: sha256_of(content) for name, content in marks_of(manifest).items()}
        yield from faults_of([_claim("publish", store, name, sha256) for name, sha256 in digests.items()])


def _named_latest(store: Store) -> str:
    """The version that latest.json names; empty if it names none."""
    with suppress(Misfit):
        return parsed(LatestShape, store.read(LATEST_FILE))["version"]
    return ""


def _of_version(store: Store, version: str, what: str, why: str) -> Fault:
    return Fault(stage="publish", uri=store.address(manifest_name(version)), what=what, why=why)


def _latest_faults(store: Store, manifests: dict[str, tuple[Record, str]]) -> Iterator[Fault]:
    fault = partial(Fault, stage="publish", uri=store.address(LATEST_FILE))
    content = store.read(LATEST_FILE)
    if content is None or content == WITHDRAWN:
        yield fault(what=MISSING)
        return
    version = _named_latest(store)
    if not version:
        yield fault(what=CHANGED)
        return
    with suppress(LineageError):  # a damaged one is named as such
        found = manifests.get(version) or read_version(store, version)
        if found is None and not store.find_names(f"{VERSIONS}/{version}"):
            yield fault(what=CHANGED, why=f"names {version}, which is not there")
        elif found and latest_content(version, found[1]) != content:
            yield fault(what=CHANGED, why=f"not what {version} wrote")


def verify_place(
    place: str,
    run: str = "",
    *,
    all_versions: bool = False,
    keys: Sequence[PublicKey] = (),
    moved_from: Sequence[str] = (),
    progress: Told = nobody,
) -> Verification:
    """Compare everything behind a place: a run's folder, published prompts, a lineage root, or a record.

    Args:
        run: id of the run, where there are several; else the newest.
        all_versions: compare every version that was published next to it, not only its own and the latest.
        keys: public keys to check signatures by; none given, signatures are not looked at.
        moved_from: folders whose content was moved to this place; records and signatures say where it lay.

    Raises:
        LineageError: when no record is there to start from.
    """
    place = absolute(place)
    chain = follow(place, run, moved_from)
    compared = verify(chain, progress=progress)
    published = _published_of(chain)
    folders = {folder: set[str]() for folder in published or [place]} if all_versions else published
    others = [root for folder in folders for root in roots_of_versions(open_store(folder))] if all_versions else []
    tombstones = Tombstones.of(chain, [*folders, *others], keys, moved_from)
    signatures = Signatures(keys=keys, moved_from=moved_from)
    if keys:
        signatures.look_at(chain, folders, all_versions=all_versions)
    more = [*faults_of(list(_result_claims(chain, place)))]
    more += [fault for folder, only in folders.items() for fault in verify_versions(folder, *only)]
    faults = {fault.uri: fault for fault in compared.problems}
    for fault in [*more, *tombstones.problems, *signatures.problems]:
        faults.setdefault(fault.uri, fault)
    explained = sorted(tombstones.explained(fault) for fault in faults.values())
    holding = tuple(f"{uri}: {signed.shown}" for uri, signed in signatures.holding.items())
    return Verification(checked=compared.checked, problems=tuple(explained), signatures=holding)


def _published_of(chain: Chain) -> dict[str, set[str]]:
    """Folders of published prompts, with the versions that the run wrote or from which the chain was followed."""
    found: dict[str, set[str]] = {}
    for step in chain.everything:
        for published, names in step.record.get("written", {}).items() if step.stage == "publish" else ():
            parts = [name.split("/") for name in names]
            versions = found.setdefault(chain.place.store_of(published).uri.rstrip("/"), set())
            versions |= {part[1] for part in parts if part[0] == VERSIONS and len(part) > 1}
    if chain.version:
        folder, _, version = chain.version.rpartition(f"/{VERSIONS}/")
        found.setdefault(folder, set()).add(version)
    return found
