"""Signatures: an in-toto Statement in a DSSE envelope, made with a private key and checked with public ones.

Envelopes, signing and verification are those of securesystemslib, which in-toto's own tools use. Keys are Ed25519, or
ECDSA on P-256 with SHA-256 and signatures in DER, in PEM. `keyid` is the SHA-256 of the public key
(SubjectPublicKeyInfo, DER); it is a hint for people, every key that was given is tried.

A statement names files, each by name, address and SHA-256. The address binds it to a folder, so a copy in another
folder does not count as signed. `version.json` names every file and record of a published version, so the envelope over
it covers all of them; it also names the versions before, with their envelopes. Files that are finished later have an
envelope of the same kind, `signatures/NAME` in the lineage root for the file `NAME` there: the record of the publishing
stage, which ends after the version has become the latest, together with all other records of the run; and each
tombstone.

The time in a statement is the signer's own; no third party stamps it.
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
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError, LineageError
from ease_lib.lineage.chain import Chain, same_place, split_root
from ease_lib.lineage.exports.slsa import PUBLISH, STATEMENT_TYPE, resource
from ease_lib.lineage.record import Record, now, resource_uri

if TYPE_CHECKING:  # takes 0.1 s to import, and few commands sign or verify
    from securesystemslib.signer import CryptoSigner, SSlibKey

SECRET = "ease-signing"  # noqa: S105
"""The Kubernetes Secret whose entry `private-key` the stage that publishes gets, and `public-key` the first task."""
ENVELOPE_FILE = "version.dsse.json"
"""The envelope over the `version.json` next to it."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "urn:ease-pipelines:signed-files:v1"
SCHEMES = ("ed25519", "ecdsa-sha2-nistp256")
"""Kinds of keys, by securesystemslib's names."""
HOW_TO_MAKE_ONE = "make one with `openssl genpkey -algorithm ed25519`"

_NONE = f"publish_signed=true needs a signing key; set {keys.SIGNING_KEY} (PEM) or "
_NONE += f"{keys.SIGNING_KEY_FILE}, in a cluster the Secret {SECRET} with private-key and public-key"


class WrongSignature(LineageError):
    """An envelope that is damaged, or that no accepted key signed."""


@dataclass(frozen=True)
class Signer:
    """A private key; its representation shows its id only."""

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

    def sign_files(self, files: Sequence[Record]) -> bytes:
        """The envelope that attests the content of these files.

        Args:
            files: as `named_file` gives them.
        """
        return self.sign(
            {
                "_type": STATEMENT_TYPE,
                "subject": list(files),
                "predicateType": PREDICATE_TYPE,
                "predicate": {"signed_at": now()},
            }
        )


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
    """Content of a valid signature: the statement, its signer and its time."""

    statement: Record
    key: PublicKey
    at: datetime

    @property
    def shown(self) -> str:
        return f"signed by {self.key.name} ({self.key.keyid[:12]}) at {_shown(self.at)}"

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of the files that it names, by name."""
        return {each["name"]: each["digest"]["sha256"] for each in self.statement["subject"]}

    def check_is_about(self, name: str, uri: str, moved_from: Sequence[str] = ()) -> None:
        """Check that the statement names the file at this address.

        Args:
            name: of the file in the folder that it was signed in.
            moved_from: folders whose content may have been moved, each with the place of its files now.

        Raises:
            WrongSignature: when it names no such file, or one in another folder.
        """
        signed_as = next((str(each["uri"]) for each in self.statement["subject"] if each["name"] == name), "")
        if not signed_as:
            raise WrongSignature("the signature of something else")
        lies_at = address_of(uri)
        old = [f"{address_of(folder)}/" for folder in moved_from]
        rests = [signed_as[len(folder) - 1 :] for folder in old if signed_as.startswith(folder)]
        if signed_as != lies_at and not any(map(lies_at.endswith, rests)):
            raise WrongSignature(
                f"signed as {signed_as}: copied from there? If you moved it yourself, add --moved-from"
            )


def signer(*, is_needed: bool = False) -> Signer | None:
    """The key in the environment, or in a file that it names; None without one.

    Raises:
        ConfigError: when that is not a private key that signs here, or missing though `publish_signed` asks for it.
    """
    try:
        pem, where = keys.signing_key()
    except OSError as error:
        raise ConfigError(f"{keys.SIGNING_KEY_FILE} cannot be read: {error.strerror}") from error
    if is_needed and not pem:
        raise ConfigError(_NONE)
    return signer_of(pem, where) if pem else None


def check_signing(*, is_needed: bool) -> None:
    """Check that a run that starts now will be able to sign, as far as that can be known.

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
        ConfigError: when the file holds no public key, or the times are not valid.
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
    from securesystemslib.signer import Signature

    try:
        envelope = Envelope.from_dict(json.loads(content))
        message = envelope.pae()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WrongSignature("not a DSSE envelope, or a damaged one") from error
    made = []
    for key, signature in itertools.product(accepted, envelope.signatures.values()):
        with suppress(UnverifiedSignatureError):
            key.key.verify_signature(Signature(key.keyid, signature.signature), message)  # whatever id it names
            made.append(key)
    if not made:
        raise WrongSignature("not signed by any of the given keys, or not for this content")
    try:
        signed = _signed(json.loads(envelope.payload), envelope.payload_type, made[0])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongSignature("signed, but not a statement by EASE") from error
    valid = [key for key in made if key.accepts(signed.at)]
    if not valid:
        raise WrongSignature(f"by {made[0].name} at {_shown(signed.at)}, when that key was not valid")
    return replace(signed, key=valid[0])


def _signed(statement: Record, payload_type: str, key: PublicKey) -> Signed:
    if payload_type != PAYLOAD_TYPE or statement["_type"] != STATEMENT_TYPE:
        raise WrongSignature(f"signed, but not an in-toto Statement of version 1: {payload_type}")
    if statement["predicateType"] != PREDICATE_TYPE:
        raise WrongSignature(f"signed, but of another kind: {statement['predicateType']}")
    if not all(each.keys() >= {"name", "uri"} and "sha256" in each["digest"] for each in statement["subject"]):
        raise WrongSignature("signed, but not a statement by EASE")
    return Signed(statement=statement, key=key, at=datetime.fromisoformat(statement["predicate"]["signed_at"]))


def address_of(uri: str) -> str:
    """Name of a file or object in statements: its URI; for a local file that of its real path."""
    return resource_uri(same_place(uri))


def named_file(name: str, uri: str, sha256: str) -> Record:
    """A file as statements name it."""
    return resource(name, same_place(uri), sha256)


def named_records(chain: Chain) -> list[Record]:
    """The records of a run in a lineage root, without that of a publication under way, which will change."""
    ended = [step for step in chain.everything if step.stage != PUBLISH or step.record["state"] != "started"]
    lying = [(str(step.record["attempt"]["record"]), step.sha256) for step in ended if step.record["attempt"]["record"]]
    return [named_file(split_root(uri)[1], uri, sha256) for uri, sha256 in lying]


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
    """The key under our id, if its kind can sign here."""
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
        raise ConfigError(f"--public-key {whole}: {text} is not a time; write FILE@2026-01-01..2026-07-01") from error
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _shown(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
