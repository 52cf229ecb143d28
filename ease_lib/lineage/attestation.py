"""Signatures: an in-toto Statement in a DSSE envelope, made with a private key and checked with public ones.

Envelopes, signing and verification are those of securesystemslib, which in-toto's own tools use. Keys are Ed25519, or
ECDSA on P-256 with SHA-256 and signatures in DER, in PEM. `keyid` is the SHA-256 of the public key
(SubjectPublicKeyInfo, DER); it is a hint for people, every key that was given is tried.

Every statement says where what it is of lies, so that a copy in another folder is none that was signed there. Two kinds
are signed:

provenance   of a run: what `exports/slsa.py` exports, with the time of the signature, all records of the run as
             byproducts, and of a published version its `version.json` as subject and the versions before it, with their
             signatures, as dependencies of kind `previous_version`
seal         of one file of a lineage root that is finished after that: the record of the stage that publishes, a
             tombstone; `signatures/NAME` in the root is the seal of `NAME`

The time in a statement is what the signer says; nobody else stamps it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from ease_lib import keys
from ease_lib.errors import ConfigError, LineageError
from ease_lib.lineage.chain import Chain, same_place
from ease_lib.lineage.exports.slsa import (
    PREDICATE_TYPE,
    PUBLISH,
    STATEMENT_TYPE,
    provenance_statement,
    record_resources,
)
from ease_lib.lineage.record import Record, now, resource_uri, sha256_of

if TYPE_CHECKING:  # takes 0.1 s to import, and few commands sign or verify
    from securesystemslib.signer import CryptoSigner, SSlibKey

SECRET = "ease-signing"  # noqa: S105
"""The Kubernetes Secret whose entry `private-key` the stage that publishes gets, and `public-key` the first task."""
ENVELOPE_FILE = "provenance.dsse.json"
"""Of a published version: its signed provenance."""
OUTPUT = "signed_provenance"
"""Of the stage that publishes, likewise; `UNSIGNED` without a key."""
UNSIGNED = b"{}\n"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
SEAL_TYPE = "urn:ease-pipelines:seal:v1"
PREVIOUS = "previous_version"
SCHEMES = ("ed25519", "ecdsa-sha2-nistp256")
"""Kinds of keys, by securesystemslib's names."""
HOW_TO_MAKE_ONE = "make one with `openssl genpkey -algorithm ed25519`"

_NONE = f"publish_signed=true and there is no key to sign with: set {keys.SIGNING_KEY} (PEM) or "
_NONE += f"{keys.SIGNING_KEY_FILE}, in a cluster the Secret {SECRET} with private-key and public-key"


class WrongSignature(LineageError):
    """An envelope that is damaged, or that no accepted key signed."""


@dataclass(frozen=True)
class Signer:
    """A private key. It shows itself by its id only."""

    _signer: CryptoSigner

    def __repr__(self) -> str:
        return f"Signer({self.public.keyid})"

    @property
    def public(self) -> PublicKey:
        return PublicKey(name="this key", key=self._signer.public_key)

    def sign(self, statement: Record) -> bytes:
        """The statement in a DSSE envelope, as JSON."""
        from securesystemslib.dsse import Envelope

        body = json.dumps(statement, ensure_ascii=False, sort_keys=True).encode()
        envelope = Envelope(body, PAYLOAD_TYPE, {})
        envelope.sign(self._signer)
        return (json.dumps(envelope.to_dict(), indent=1) + "\n").encode()

    def seal(self, name: str, uri: str, content: bytes) -> bytes:
        """The envelope that says that a file of a lineage root has this content.

        Args:
            name, uri: of the file in the root, and its whole address.
        """
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "uri": address_of(uri), "digest": {"sha256": sha256_of(content)}}],
            "predicateType": SEAL_TYPE,
            "predicate": {"signed_at": now()},
        }
        return self.sign(statement)


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """A key that signatures are accepted from.

    Args:
        name: the file it was read from.
        since, until: it is accepted for signatures from then on, and before then.
    """

    name: str
    key: SSlibKey
    since: datetime | None = None
    until: datetime | None = None

    @property
    def keyid(self) -> str:
        return self.key.keyid

    def accepts(self, moment: datetime) -> bool:
        return (self.since is None or self.since <= moment) and (self.until is None or moment < self.until)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """What a signature that holds says: the statement, and who signed it when by that statement."""

    statement: Record
    key: PublicKey
    at: datetime

    @property
    def shown(self) -> str:
        return f"signed by {self.key.name} ({self.key.keyid[:12]}) at {_shown(self.at)}"

    @property
    def subjects(self) -> dict[str, str]:
        """SHA-256 by name."""
        return {each["name"]: each["digest"]["sha256"] for each in self.statement["subject"]}

    def strayed(self, name: str, uri: str, moved_from: Sequence[str] = ()) -> str:
        """Why a subject is none of the file at this address; empty where it is.

        Args:
            moved_from: folders whose content may have been moved, to wherever its files lie now.
        """
        said = next((str(each.get("uri", "")) for each in self.statement["subject"] if each["name"] == name), "")
        lies_at = address_of(uri)
        if said == lies_at:
            return ""
        old = [f"{address_of(folder)}/" for folder in moved_from]
        if any(said.startswith(folder) and lies_at.endswith(said[len(folder) - 1 :]) for folder in old):
            return ""
        if not said:
            return "the signature does not say of which folder it is, as old ones do not: publish anew"
        return f"signed as {said}: copied from there? Where you moved it yourself, say so by --moved-from"

    @property
    def run(self) -> str:
        return str(self.statement["predicate"]["runDetails"]["metadata"]["invocationId"])

    @property
    def records(self) -> dict[str, Record]:
        """Lineage records of the run as resources, by the name `records/STAGE-ATTEMPT.json`."""
        byproducts = self.statement["predicate"]["runDetails"]["byproducts"]
        return {each["name"]: each for each in byproducts if each["name"].startswith("records/")}

    @property
    def previous(self) -> dict[str, str]:
        """SHA-256 of the manifests and signatures of the versions before, by name in the folder of versions."""
        dependencies = self.statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        named = [each for each in dependencies if each.get("annotations", {}).get("kind") == PREVIOUS]
        return {each["name"]: each["digest"]["sha256"] for each in named}


def signer(*, is_needed: bool = False) -> Signer | None:
    """The key that the environment has or names; None where it has none.

    Raises:
        ConfigError: when that is no private key that signs here, or missing though `publish_signed` asks for it.
    """
    try:
        pem, where = keys.signing_key()
    except OSError as error:
        raise ConfigError(f"{keys.SIGNING_KEY_FILE} cannot be read: {error.strerror}") from error
    if is_needed and not pem:
        raise ConfigError(_NONE)
    return signer_of(pem, where) if pem else None


def check_signing(*, is_needed: bool) -> None:
    """Whether a run that starts now will be able to sign, where that can be known.

    In a cluster the first task does not get the private key, and looks for the public one in the same Secret.

    Raises:
        ConfigError: when a key is damaged, or missing though `publish_signed` asks for it.
    """
    public = keys.signing_public_key()
    if public:
        _public_key(public.encode(), keys.SIGNING_PUBLIC_KEY)
    signer(is_needed=is_needed and not public)


def read_public_key(text: str) -> PublicKey:
    """A key as `FILE` or `FILE@SINCE..UNTIL`; either time may be left out. A day begins at midnight UTC.

    Raises:
        ConfigError: when the file holds no public key, or the times are none.
    """
    path, _, window = text.rpartition("@")
    if ".." not in window or not path:
        path, window = text, ".."
    since, _, until = window.partition("..")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"--public-key {path} cannot be read: {error.strerror}") from error
    return PublicKey(name=path, key=_public_key(content, path), since=_moment(since, text), until=_moment(until, text))


def open_envelope(content: bytes, accepted: Iterable[PublicKey]) -> Signed:
    """The statement of an envelope, if one of these keys signed it within its time.

    Raises:
        WrongSignature: when it is damaged, signed by none of them, or at another time.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import UnverifiedSignatureError

    try:
        envelope = Envelope.from_dict(json.loads(content))
        message = envelope.pae()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WrongSignature("no DSSE envelope, or a damaged one") from error
    made = []
    for key, signature in itertools.product(accepted, envelope.signatures.values()):
        with suppress(UnverifiedSignatureError):
            key.key.verify_signature(signature, message)
            made.append(key)
    if not made:
        raise WrongSignature("by none of the keys given, or not over this content")
    try:
        statement = json.loads(envelope.payload)
        if envelope.payload_type != PAYLOAD_TYPE or statement["_type"] != STATEMENT_TYPE:
            raise WrongSignature(f"signed, and no in-toto Statement of version 1: {envelope.payload_type}")
        at = datetime.fromisoformat(_signed_at(statement))
        valid = [key for key in made if key.accepts(at)]
        signed = Signed(statement=statement, key=made[0], at=at)
        signed.subjects  # noqa: B018  (has every field, or raises)
        if statement["predicateType"] == PREDICATE_TYPE:
            signed.run, signed.records, signed.previous  # noqa: B018
    except (ValueError, KeyError, TypeError) as error:
        raise WrongSignature("signed, and no statement of ours") from error
    if not valid:
        raise WrongSignature(f"by {made[0].name} at {_shown(at)}, when that key was not valid")
    return replace(signed, key=valid[0])


def address_of(uri: str) -> str:
    """How statements name a file or object: as a URI, of a local file by its real path."""
    return resource_uri(same_place(uri))


def open_seal(
    content: bytes,
    name: str,
    uri: str,
    sealed: bytes,
    accepted: Iterable[PublicKey],
    moved_from: Sequence[str] = (),
) -> Signed:
    """The seal of a file of a lineage root.

    Args:
        name, uri: of the file in the root, and where it lies.
        sealed: the content of the file.
        moved_from: as of `Signed.strayed`.

    Raises:
        WrongSignature: as `open_envelope`, and when it is the seal of something else.
    """
    signed = open_envelope(content, accepted)
    if signed.statement["predicateType"] != SEAL_TYPE or name not in signed.subjects:
        raise WrongSignature("signed, and the seal of something else")
    if signed.subjects[name] != sha256_of(sealed):
        raise WrongSignature("this is not the content that was signed")
    if strayed := signed.strayed(name, uri, moved_from):
        raise WrongSignature(strayed)
    return signed


def signed_provenance(
    chain: Chain, files: Record, *, manifest: Record | None = None, previous: Sequence[Record] = ()
) -> Record:
    """The Statement about a run that is signed.

    Args:
        files: `{"sha256": ..., "bytes": ...}` of the result's files by name.
        manifest: `version.json` of the published version as subject, if there is one.
        previous: resources of the versions before it.
    """
    statement = provenance_statement(chain, files)
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    known = {each["name"] for each in details["byproducts"]}
    ended = [step for step in chain.everything if step.stage != PUBLISH or step.record["state"] != "started"]
    statement["subject"] += [manifest] if manifest else []
    definition["internalParameters"]["signed_at"] = now()
    definition["resolvedDependencies"] += [{**each, "annotations": {"kind": PREVIOUS}} for each in previous]
    details["byproducts"] += [each for each in record_resources(ended) if each["name"] not in known]
    return statement


def _signed_at(statement: Record) -> str:
    predicate = statement["predicate"]
    if statement["predicateType"] == SEAL_TYPE:
        return str(predicate["signed_at"])
    if statement["predicateType"] == PREDICATE_TYPE:
        return str(predicate["buildDefinition"]["internalParameters"]["signed_at"])
    raise WrongSignature(f"signed, and of another kind: {statement['predicateType']}")


def signer_of(pem: bytes, where: str) -> Signer:
    """The private key of a PEM text.

    Args:
        where: the variable or file that has it, for messages.

    Raises:
        ConfigError: when it is encrypted, or not a private key of a kind that signs here.
    """
    from securesystemslib.signer import CryptoSigner

    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError as error:
        raise ConfigError(f"{where} is encrypted; store the key without a passphrase in a Secret or file") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{where} holds no private key in PEM; {HOW_TO_MAKE_ONE}") from error
    return Signer(CryptoSigner(key, _supported(key.public_key(), where)))


def _public_key(pem: bytes, where: str) -> SSlibKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{where} holds no public key in PEM; `openssl pkey -in KEY -pubout` prints it") from error
    return _supported(key, where)


def _supported(key: PublicKeyTypes, where: str) -> SSlibKey:
    """The key under our id, if it is of a kind that signs here."""
    from securesystemslib.signer import SSlibKey

    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    with suppress(ValueError):
        found = SSlibKey.from_crypto(key, keyid=sha256_of(key.public_bytes(*form)))
        if found.scheme in SCHEMES:
            return found
    raise ConfigError(f"{where} is neither Ed25519 nor ECDSA on P-256; {HOW_TO_MAKE_ONE}")


def _moment(text: str, whole: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise ConfigError(f"--public-key {whole}: {text} is no time; write FILE@2026-01-01..2026-07-01") from error
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _shown(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
