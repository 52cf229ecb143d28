"""Recompute everything behind what is at a place, and tell what was removed on request from what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ease_lib.artifacts.store import open_store
from ease_lib.errors import LineageError
from ease_lib.lineage.addresses import absolute
from ease_lib.lineage.attestation import PublicKey
from ease_lib.lineage.chain import VERSIONS, Chain, follow
from ease_lib.lineage.deletion.tombstones import Tombstones
from ease_lib.lineage.publishing.verification import verify_versions
from ease_lib.lineage.publishing.versions import read_version, versions_in
from ease_lib.lineage.signatures import Signatures
from ease_lib.lineage.verification import Verdict, verify, verify_results


def verify_place(
    place: str,
    run: str = "",
    *,
    all_versions: bool = False,
    keys: Sequence[PublicKey] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Compare everything behind what is at a place: a run's folder, published prompts, a lineage root, a record.

    Args:
        run: id of the run, where there are several; else the newest.
        all_versions: compare every version that was published beside it, not only its own and the latest.
        keys: public keys to check signatures by; none given, signatures are not looked at.

    Raises:
        LineageError: when no record is there to start from.
    """
    place = absolute(place)
    chain = follow(place, run)
    verdict = verify(chain, progress=progress)
    problems = {problem.uri: problem for problem in verdict.problems}
    published = _published_of(chain)
    folders = {folder: set[str]() for folder in published or [place]} if all_versions else published
    others = [root for folder in folders for root in _roots_of_versions(folder)] if all_versions else []
    tombstones = Tombstones.of(chain, [*folders, *others], keys)
    signatures = Signatures(keys=keys)
    if keys:
        signatures.look_at(chain, folders, all_versions=all_versions)
    of_versions = [problem for folder, only in folders.items() for problem in verify_versions(folder, *sorted(only))]
    for problem in [*verify_results(chain, place), *of_versions, *tombstones.problems, *signatures.problems]:
        problems.setdefault(problem.uri, problem)
    explained = sorted(tombstones.explained(problem) for problem in problems.values())
    holding = tuple(f"{uri}: {signed.shown}" for uri, signed in signatures.holding.items())
    return Verdict(checked=verdict.checked, problems=tuple(explained), signatures=holding)


def _published_of(chain: Chain) -> dict[str, set[str]]:
    """Folders of published prompts, with the versions there that the run wrote or that was followed."""
    found: dict[str, set[str]] = {}
    for step in chain.everything:
        for published, names in step.record.get("written", {}).items() if step.stage == "publish" else ():
            parts = [name.split("/") for name in names]
            versions = found.setdefault(chain.place.store_of(published).uri.rstrip("/"), set())
            versions |= {part[1] for part in parts if part[0] == VERSIONS}
    if chain.version:
        folder, _, version = chain.version.rpartition(f"/{VERSIONS}/")
        found.setdefault(folder, set()).add(version)
    return found


def _roots_of_versions(uri: str) -> Iterator[str]:
    """Lineage roots of the runs that made the versions in a folder."""
    store = open_store(uri)
    for version in versions_in(store):
        with suppress(LineageError):
            found = read_version(store, version)
            if found is not None:
                yield str(found[0]["head"]["record"]).rpartition("/runs/")[0]
