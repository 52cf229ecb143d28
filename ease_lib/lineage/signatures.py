"""Look whether what was signed is what is there: versions, the records of their runs, and what publishing did.

From a signature that holds, everything is known by digest: `version.json` and with it every file and mark of a version,
the versions before it and their signatures, and the records of the run, which name all artifacts, answers and files
read. `verify` compares those with the records; here the records are compared with what was signed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ease_lib.artifacts.store import Store, open_store
from ease_lib.errors import StoreError
from ease_lib.lineage.attestation import OUTPUT, PublicKey, Signed, WrongSignature, open_envelope, open_seal
from ease_lib.lineage.attestation import UNSIGNED as NO_ENVELOPE
from ease_lib.lineage.chain import Chain, stage_of, versions_in
from ease_lib.lineage.exports.slsa import PREDICATE_TYPE, PUBLISH
from ease_lib.lineage.faults import CHANGED, MISSIGNED, MISSING, UNSIGNED, Fault
from ease_lib.lineage.publishing.versions import envelope_name, manifest_name, manifests_and_envelopes
from ease_lib.lineage.record import Record, sha256_of
from ease_lib.lineage.recording import SEALS

NO_STATEMENT = "no statement about a run"


@dataclass(kw_only=True)
class Signatures:
    """What the signatures behind a chain say.

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
        of_run: list[Signed] = []
        for folder, expected in published.items():
            signed = self._versions(open_store(folder), expected, all_versions=all_versions)
            of_run += [signed[version] for version in expected if version in signed]
        of_run += self._outputs(chain)
        seals = self._seals(chain)
        of_run = [each for each in of_run if each.run == chain.head.record["run"]["id"]]
        if of_run:
            self._records(chain, of_run, seals)
        else:
            self._problem(chain.head.uri, UNSIGNED, "no signature speaks of this run")

    def _problem(self, uri: str, what: str, why: str, stage: str = PUBLISH) -> None:
        self.problems.append(Fault(stage=stage, uri=uri, what=what, why=why))

    def _versions(self, store: Store, expected: Collection[str], *, all_versions: bool) -> dict[str, Signed]:
        """Statements of the versions in a folder whose signatures hold; each is compared with its version."""
        versions = versions_in(store.walk_names())
        contents = manifests_and_envelopes(store, versions)
        found = {}
        for version in versions:
            envelope = contents[envelope_name(version)]
            where = store.address(envelope_name(version))
            is_wanted = version in expected or (all_versions and contents[manifest_name(version)] is not None)
            if envelope is None and is_wanted:
                self._problem(where, UNSIGNED, f"{version} has no signature")
            signed = self._opened(envelope, where, keep=is_wanted) if envelope is not None else None
            if signed is None:
                continue
            named = signed.subjects.get(manifest_name(version))
            strayed = signed.strayed(manifest_name(version), store.address(manifest_name(version)), self.moved_from)
            if named is None or strayed:
                self._problem(where, MISSIGNED, "the signature of another version" if named is None else strayed)
                self.holding.pop(where, None)
            elif self._is_same(store, manifest_name(version), contents, named, "the one that was signed"):
                found[version] = signed
            for name, sha256 in signed.previous.items():
                self._is_same(store, name, contents, sha256, f"the one that {version} was published after")
        return found

    def _opened(self, envelope: bytes, where: str, *, keep: bool = True) -> Signed | None:
        """A statement about a run; `keep` it among those that hold."""
        try:
            signed = open_envelope(envelope, self.keys)
            if signed.statement["predicateType"] != PREDICATE_TYPE:
                raise WrongSignature(NO_STATEMENT)
        except WrongSignature as error:
            self._problem(where, MISSIGNED, str(error))
            return None
        if keep:
            self.holding[where] = signed
        return signed

    def _is_same(self, store: Store, name: str, contents: Mapping[str, bytes | None], sha256: str, what: str) -> bool:
        """Whether a file is what was signed; a fault where it is not."""
        content = contents.get(name)
        if content is None:
            self._problem(store.address(name), MISSING, what)
        elif sha256_of(content) != sha256:
            self._problem(store.address(name), CHANGED, f"not {what}")
        return content is not None and sha256_of(content) == sha256

    def _outputs(self, chain: Chain) -> Iterator[Signed]:
        """Statements among the artifacts of the run."""
        for step in chain.everything:
            for output in step.record["outputs"] if step.stage == PUBLISH else ():
                content = chain.place.found(output["uri"]) if output["name"] == OUTPUT else None
                signed = self._opened(content, output["uri"]) if content not in (None, NO_ENVELOPE) else None
                if signed:
                    yield signed

    def _seals(self, chain: Chain) -> set[str]:
        """Ids of the attempts at publishing whose record is signed."""
        sealed = set()
        by_name = {f"{step.stage}-{step.id}.json": step for step in chain.everything}
        own = [step.record for step in chain.everything if step.record["run"]["id"] == chain.head.record["run"]["id"]]
        attempts = [record["attempt"] for record in own]
        folders = dict.fromkeys(attempt["record"].rpartition("/")[0] for attempt in attempts if attempt["record"])
        for folder in folders:
            root, _, run = folder.rpartition("/runs/")
            for name in _names(chain, f"{root}/{SEALS}/runs/{run}"):
                where = f"{folder}/{name}"
                seal = chain.place.found(f"{root}/{SEALS}/runs/{run}/{name}")
                step = by_name.get(name)
                try:
                    if step is None:
                        open_envelope(seal or b"", self.keys)
                        self._problem(where, MISSING, "its signature is there")
                        continue
                    uri = chain.place.where(where)
                    signed = open_seal(seal or b"", f"runs/{run}/{name}", uri, step.content, self.keys, self.moved_from)
                except WrongSignature as error:
                    self._problem(where, MISSIGNED, str(error))
                    continue
                self.holding[where] = signed
                sealed.add(step.id)
        return sealed

    def _records(self, chain: Chain, statements: Sequence[Signed], sealed: Collection[str]) -> None:
        """Compare the records of the chain with those that were signed, in both directions."""
        signed: dict[str, list[Record]] = {}
        for statement in statements:
            for name, each in statement.records.items():
                signed.setdefault(name, []).append(each)
        present = {f"records/{step.stage}-{step.id}.json": step for step in chain.everything}
        for name, step in present.items():
            where = step.record["attempt"]["record"] or step.uri
            if step.id in sealed:
                continue
            digests = {each["digest"]["sha256"] for each in signed.get(name, ())}
            if digests and step.sha256 not in digests:
                self._problem(where, CHANGED, "not the record that was signed", step.stage)
            elif not digests and (step.stage != PUBLISH or step.record["state"] == "complete"):
                self._problem(where, UNSIGNED, "no signature speaks of this record", step.stage)
        for name in sorted(set(signed) - set(present)):
            self._problem(signed[name][-1]["uri"], MISSING, "a record that was signed", stage_of(name))
        where = chain.head.record["attempt"]["record"]
        if where and not any(step.id in sealed for step in chain.everything):
            self._problem(where, UNSIGNED, "no signed record says how publishing ended")


def _names(chain: Chain, folder: str) -> list[str]:
    with suppress(StoreError):
        return chain.place.store_of(folder).find_names()
    return []
