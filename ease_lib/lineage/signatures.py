"""Check of signed files against the present ones: versions, the records of their runs, and publications.

A valid signature leads to everything by digest: `version.json`, and with it every file, mark and record of a version;
the versions before it and their signatures; and the records of the run, which name all artifacts, answers and files
read. `verify` compares those with the records; this module compares the records with the signed digests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ease_lib.artifacts.store import Store, open_store
from ease_lib.digests import sha256_of
from ease_lib.errors import LineageError, StoreError
from ease_lib.lineage.attestation import PublicKey, Signed, WrongSignature, open_envelope
from ease_lib.lineage.chain import COPIES, MANIFEST_CONTRACT, Chain, split_root, stage_of, versions_in
from ease_lib.lineage.exports.slsa import PUBLISH
from ease_lib.lineage.faults import CHANGED, MISSIGNED, MISSING, UNSIGNED, Fault
from ease_lib.lineage.publishing.versions import envelope_name, manifest_name, manifests_and_envelopes
from ease_lib.lineage.record import Record, decode
from ease_lib.lineage.recording import SIGNATURES


@dataclass(kw_only=True)
class Signatures:
    """Statements of the signatures behind a chain.

    Args:
        moved_from: folders whose content may have been moved.
        holding: by URI, those that hold, of the run and the versions that a signature is expected of.
    """

    keys: Sequence[PublicKey]
    moved_from: Sequence[str] = ()
    holding: dict[str, Signed] = field(default_factory=dict)
    problems: list[Fault] = field(default_factory=list)

    def look_at(self, chain: Chain, published: Mapping[str, Collection[str]], *, all_versions: bool) -> None:
        """Check everything that is signed.

        Args:
            published: folders of published prompts, with the versions there that a signature is expected of.
            all_versions: expect one of each version there.
        """
        records: dict[str, str] = {}
        for folder, expected in published.items():
            for manifest in self._versions(open_store(folder), expected, all_versions=all_versions):
                if manifest["run"]["id"] == chain.head.record["run"]["id"]:
                    records |= _records(manifest["files"], COPIES)
        ends = dict(self._ends(chain))
        for signed in ends.values():
            records |= _records(signed.files, "runs")
        if records:
            self._compare(chain, records, ends)
        else:
            self._problem(chain.head.uri, UNSIGNED, "no signature covers this run")

    def _problem(self, uri: str, what: str, why: str, stage: str = PUBLISH) -> None:
        self.problems.append(Fault(stage=stage, uri=uri, what=what, why=why))

    def _versions(self, store: Store, expected: Collection[str], *, all_versions: bool) -> Iterator[Record]:
        """Manifests in a folder with valid signatures; the files that they name are compared with the present ones."""
        versions = versions_in(store.walk_names())
        contents = manifests_and_envelopes(store, versions)
        for version in versions:
            own, envelope = manifest_name(version), contents[envelope_name(version)]
            where = store.address(envelope_name(version))
            is_wanted = version in expected or (all_versions and contents[own] is not None)
            if envelope is None and is_wanted:
                self._problem(where, UNSIGNED, f"{version} has no signature")
            signed = self._opened(envelope, where, own, store.address(own)) if envelope is not None else None
            if signed is None:
                continue
            if is_wanted:
                self.holding[where] = signed
            for name, sha256 in signed.files.items():
                what = "the one that was signed" if name == own else f"the one that {version} was published after"
                content = contents.get(name)
                if content is None:
                    self._problem(store.address(name), MISSING, what)
                elif sha256_of(content) != sha256:
                    self._problem(store.address(name), CHANGED, f"not {what}")
                elif name == own:
                    with suppress(LineageError):  # `verify` names it
                        yield decode(content, store.address(own), MANIFEST_CONTRACT)

    def _opened(self, envelope: bytes, where: str, name: str, lies_at: str) -> Signed | None:
        """Statement of an envelope that is valid and names the file at this address; else a fault of `where`."""
        try:
            signed = open_envelope(envelope, self.keys)
            signed.check_is_about(name, lies_at, self.moved_from)
        except WrongSignature as error:
            self._problem(where, MISSIGNED, str(error))
            return None
        return signed

    def _ends(self, chain: Chain) -> Iterator[tuple[str, Signed]]:
        """Statements signed when publishing ended, by the file of that attempt's record."""
        own = [step.record for step in chain.everything if step.record["run"]["id"] == chain.head.record["run"]["id"]]
        folders = dict.fromkeys(str(record["attempt"]["record"]).rpartition("/")[0] for record in own)
        for folder in filter(None, folders):
            root, run = split_root(folder)
            for file in _names(chain, f"{root}/{SIGNATURES}/{run}"):
                where = f"{folder}/{file}"
                envelope = chain.place.found(f"{root}/{SIGNATURES}/{run}/{file}")
                signed = self._opened(envelope or b"", where, f"{run}/{file}", chain.place.where(where))
                if signed is not None:
                    self.holding[where] = signed
                    yield file, signed

    def _compare(self, chain: Chain, records: Mapping[str, str], ends: Collection[str]) -> None:
        """Compare the records of the chain with those that were signed, in both directions.

        Args:
            records: SHA-256 of those that were signed, by file.
            ends: files of the records of publishing that were signed.
        """
        present = {f"{step.stage}-{step.id}.json": step for step in chain.everything}
        for file, step in present.items():
            where = step.record["attempt"]["record"] or step.uri
            if file in records:
                if step.sha256 != records[file]:
                    self._problem(where, CHANGED, "not the record that was signed", step.stage)
            elif step.stage != PUBLISH or step.record["state"] == "complete":
                self._problem(where, UNSIGNED, "no signature covers this record", step.stage)
        where = str(chain.head.record["attempt"]["record"] or chain.head.uri)
        for file in sorted(set(records) - set(present)):
            gone = f"{where.rpartition('/')[0]}/{file}"
            self._problem(gone, MISSING, "a record that was signed", stage_of(file))
        if not any(file in ends for file in present):
            self._problem(where, UNSIGNED, "no signed record shows how publishing ended")


def _records(files: Mapping[str, str | Record], folder: str) -> dict[str, str]:
    """SHA-256 of the records among these files, by the last part of their names."""
    digests = {name: file if isinstance(file, str) else str(file["sha256"]) for name, file in files.items()}
    return {name.rpartition("/")[2]: each for name, each in digests.items() if name.startswith(f"{folder}/")}


def _names(chain: Chain, folder: str) -> list[str]:
    with suppress(StoreError):
        return chain.place.store_of(folder).find_names()
    return []
