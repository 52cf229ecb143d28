"""Records of removals on request: `tombstones/ROW/TIME.json` in a lineage root.

A tombstone is written before anything is deleted, with all that will go and the state `intended`, and again at the
end, with what went and the state `done`. So a removal that was killed is known and can be finished, and verification
can tell what is gone because of it. Content is named by digest, so copies and moved files are included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace

from ease_lib.artifacts.store import Store, joined, open_store
from ease_lib.digests import sha256_of
from ease_lib.errors import LineageError
from ease_lib.lineage.attestation import (
    PublicKey,
    Signer,
    WrongSignature,
    named_file,
    open_envelope,
)
from ease_lib.lineage.chain import Chain, same_place
from ease_lib.lineage.faults import CHANGED, FORGOTTEN, MISSIGNED, MISSING, UNFINISHED, UNSIGNED, Fault
from ease_lib.lineage.record import Record, decode, encode
from ease_lib.lineage.recording import SIGNATURES

FOLDER = "tombstones"
CONTRACT = "tombstone/3"
INTENDED, DONE = "intended", "done"
STAGE = "forget"
"""Stage name in problems of the tombstones themselves."""


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """A removal: its row, and the removed files.

    Args:
        when: when it was begun; its name, with the row.
        removed: `uri` and `sha256` of each file, object, or answer (`FILE#KEY`); of latest.json if it went.
    """

    row: str
    when: str
    reason: str
    state: str
    removed: Sequence[Record]

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.row}/{self.when.replace(':', '')}.json"

    def write(self, root: str, key: Signer | None = None) -> None:
        """Write the tombstone into a lineage root, and its signature if there is a key."""
        content = encode({**vars(self), "removed": list(self.removed)}, CONTRACT)
        store = open_store(root)
        store.write(self.name, content)
        if key:
            named = named_file(self.name, store.address(self.name), sha256_of(content))
            store.write(f"{SIGNATURES}/{self.name}", key.sign_files([named]))


def read_tombstone(content: bytes, where: str) -> Tombstone:
    """Read what `write` wrote.

    Raises:
        LineageError: when it is not a tombstone, or not as it was written.
    """
    try:
        found = decode(content, where, CONTRACT)
        return Tombstone(**{each.name: found[each.name] for each in fields(Tombstone)})
    except KeyError as error:
        raise LineageError(f"{where} is damaged: no tombstone") from error


def unfinished(root: str, row: str) -> Iterator[Tombstone]:
    """Unfinished removals of a row in a lineage root."""
    store = open_store(root)
    for name in store.find_names(f"{FOLDER}/{row}"):
        with suppress(LineageError):  # a damaged one cannot be continued; verify names it
            found = read_tombstone(store.read(f"{FOLDER}/{row}/{name}") or b"", name)
            if found.state == INTENDED:
                yield found


def is_signed(root: str, tombstone: Tombstone, key: PublicKey) -> bool:
    """Whether this key signed a tombstone as it lies in a lineage root."""
    store = open_store(root)
    with suppress(WrongSignature):
        return _has_signature(store, tombstone.name, store.read(tombstone.name) or b"", [key])
    return False


def _has_signature(
    store: Store, name: str, content: bytes, keys: Sequence[PublicKey], moved_from: Sequence[str] = ()
) -> bool:
    """Whether a tombstone is signed.

    Raises:
        WrongSignature: when it is, and not by these keys or not with this content.
    """
    envelope = store.read(f"{SIGNATURES}/{name}")
    if envelope is not None:
        signed = open_envelope(envelope, keys)
        signed.check_is_about(name, store.address(name), moved_from)
        if signed.files[name] != sha256_of(content):
            raise WrongSignature("this is not the content that was signed")
    return envelope is not None


@dataclass(kw_only=True)
class Tombstones:
    """Files removed on request, by digest of the content and by place.

    Args:
        removed: the row, by the digest of what went.
        places: the same by address, for what no record has a digest of.
        unsigned: rows whose removal a tombstone without a signature says; only where signatures are looked at.
        problems: tombstones that are damaged or unfinished.
    """

    removed: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    unsigned: set[str] = field(default_factory=set)
    problems: list[Fault] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        chain: Chain,
        others: Iterable[str] = (),
        keys: Sequence[PublicKey] = (),
        moved_from: Sequence[str] = (),
    ) -> Tombstones:
        """Collect the tombstones in the roots that a chain's records lie in, in the place that it was followed from,
        and in others.

        Args:
            others: more lineage roots, and folders of published prompts.
            keys: that tombstones must be signed by; none given, they are taken as they are.
            moved_from: as of `Signed.strayed`.
        """
        links = {step.record["attempt"]["record"].rpartition("/runs/")[0] for step in chain.everything} | set(others)
        roots = {chain.place.store_of(root).uri.rstrip("/") for root in links - {""}} | ({chain.place.uri} - {""})
        found = cls()
        for root in sorted(roots):
            found._read(open_store(root), keys, moved_from)
        return found

    def explained(self, problem: Fault) -> Fault:
        """The problem, turned into a removal on request if a tombstone lists the missing file."""
        known = self.removed.get(problem.expected_sha256, "")
        row = known if problem.expected_sha256 else self.places.get(same_place(problem.uri), "")
        if not row or problem.what != MISSING:
            return problem
        if row in self.unsigned:
            why = f"row {row[:12]} was removed, according to a tombstone without signature"
            return replace(problem, what=UNSIGNED, why=why)
        return replace(problem, what=FORGOTTEN, why=f"row {row[:12]}")

    def _read(self, root: Store, keys: Sequence[PublicKey], moved_from: Sequence[str]) -> None:
        for below in open_store(joined(root.uri, FOLDER)).walk_names():
            name = f"{FOLDER}/{below}"
            where = root.address(name)
            content = root.read(name) or b""
            try:
                tombstone = read_tombstone(content, where)
            except LineageError as error:
                self._fault(where, CHANGED, str(error))
                continue
            is_trusted = not keys
            try:
                is_trusted = is_trusted or _has_signature(root, name, content, keys, moved_from)
            except WrongSignature as error:
                self._fault(where, MISSIGNED, str(error))
            if not is_trusted:
                self.unsigned.add(tombstone.row)
            if tombstone.state == INTENDED:
                why = f"begun {tombstone.when}; run the same `ease forget` again to continue"
                self._fault(where, UNFINISHED, why)
            for item in tombstone.removed:
                self.removed[item["sha256"]] = self.places[same_place(item["uri"])] = tombstone.row

    def _fault(self, where: str, what: str, why: str) -> None:
        self.problems.append(Fault(stage=STAGE, uri=where, what=what, why=why))
