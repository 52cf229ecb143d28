"""Signatures of statements: which hold, which do not, and what keys are taken."""

import base64
import json
import subprocess
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from ease_lib.errors import ConfigError
from ease_lib.lineage.attestation import (
    WrongSignature,
    check_signing,
    named_file,
    open_envelope,
    read_public_key,
    signer,
    signer_of,
)
from ease_lib.lineage.redaction import HIDDEN, redacted, secrets_of
from tests.signing_keys import KINDS, PEM, PKCS8, KeyPair


@pytest.fixture(params=KINDS)
def pair(request, tmp_path, monkeypatch):
    pair = KeyPair(tmp_path, kind=request.param)
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    return pair


MANIFEST = "versions/v2/version.json"


def signed_files(*more):
    """An envelope about a manifest and files before it."""
    return signer().sign_files(named(*more))


def named(*more):
    return [named_file(MANIFEST, f"s3://bucket/prompts/{MANIFEST}", "a" * 64), *more]


def accepted(*pairs):
    return [read_public_key(str(pair.file)) for pair in pairs]


def changed(envelope, **fields):
    return json.dumps({**json.loads(envelope), **fields}).encode()


def test_a_signature_holds_and_says_who_signed_what_when(pair):
    signed = open_envelope(signed_files(), accepted(pair))
    assert signed.files == {MANIFEST: "a" * 64}
    assert signed.key.name == str(pair.file)
    assert abs((datetime.now(UTC) - signed.at).total_seconds()) < 60


def test_securesystemslib_verifies_the_same_envelope_and_refuses_what_was_changed(pair):
    """The envelope is verified as in-toto's own tools do it, by keyid and with a threshold."""
    public = serialization.load_pem_public_key(pair.public.encode())
    key = SSlibKey.from_crypto(public, keyid=signer().public.keyid)
    envelope = Envelope.from_dict(json.loads(signed_files()))
    assert envelope.verify([key], 1) == {key.keyid: key}
    envelope.payload = envelope.payload.replace(b"aaaa", b"aaab")
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)


def test_openssl_verifies_the_same_signature(pair, tmp_path):
    envelope = json.loads(signed_files())
    message, signature = tmp_path / "message", tmp_path / "signature"
    message.write_bytes(pre_authentication(envelope["payloadType"], base64.b64decode(envelope["payload"])))
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    digest = [] if signer().public.key.scheme == "ed25519" else ["-digest", "sha256"]
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pair.file, "-rawin", *digest, "-in", message]
    done = subprocess.run([*command, "-sigfile", signature], capture_output=True, text=True)
    assert "Signature Verified Successfully" in done.stdout, done.stderr


def pre_authentication(kind, body):
    """Bytes that the DSSE protocol, version 1, signs; written here again, so that no library checks itself."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(body), body)


def test_the_parser_of_in_toto_takes_what_is_signed(pair):
    json_format = pytest.importorskip("google.protobuf.json_format")
    statement_pb2 = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    from in_toto_attestation.v1.statement import Statement

    before = named_file("versions/v1/version.json", "s3://b/versions/v1/version.json", "1" * 64)
    signed = open_envelope(signed_files(before), accepted(pair))
    Statement.copy_from_pb(json_format.ParseDict(signed.statement, statement_pb2.Statement())).validate()
    assert signed.files == {MANIFEST: "a" * 64, "versions/v1/version.json": "1" * 64}


@pytest.mark.parametrize(
    "damage",
    {
        "empty": lambda content: b"",
        "no JSON": lambda content: b"not an envelope",
        "a list": lambda content: b"[]",
        "null": lambda content: b"null",
        "truncated": lambda content: content[: len(content) // 2],
        "no base64": lambda content: changed(content, payload="ü"),
        "no payload": lambda content: changed(content, payload=""),
        "signatures stripped": lambda content: changed(content, signatures=[]),
        "a signature that is none": lambda content: changed(content, signatures=[{"sig": ""}]),
        "signatures are numbers": lambda content: changed(content, signatures=[1]),
        "another type": lambda content: changed(content, payloadType="text/plain"),
        "payload changed": lambda content: changed(
            content, payload=base64.b64encode(_payload(content).replace(b"aaaa", b"aaab")).decode()
        ),
        "a space more": lambda content: changed(content, payload=base64.b64encode(_payload(content) + b" ").decode()),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_damaged_or_changed_envelope_does_not_hold(pair, damage):
    content = signed_files()
    assert damage[1](content) != content
    with pytest.raises(WrongSignature, match=r"not a DSSE envelope|any of the given keys"):
        open_envelope(damage[1](content), accepted(pair))


def _payload(content):
    return base64.b64decode(json.loads(content)["payload"])


def test_the_key_of_somebody_else_does_not_do_whatever_it_is_called(pair, tmp_path):
    mine = KeyPair(tmp_path, "mine")
    envelope = json.loads(signer_with(mine).sign_files(named()))
    envelope["signatures"][0]["keyid"] = signer().public.keyid
    with pytest.raises(WrongSignature, match="not signed by any of the given keys"):
        open_envelope(json.dumps(envelope).encode(), accepted(pair))
    assert open_envelope(json.dumps(envelope).encode(), accepted(pair, mine)).key.name == str(mine.file)


def test_one_good_signature_among_others_is_enough(pair, tmp_path):
    other = KeyPair(tmp_path, "other")
    statement = statement_of(signed_files())
    envelopes = [json.loads(each.sign(statement)) for each in (signer_with(other), signer())]
    envelope = {**envelopes[0], "signatures": [each["signatures"][0] for each in envelopes]}
    for known in (pair, other):
        assert open_envelope(json.dumps(envelope).encode(), accepted(known)).key.name == str(known.file)


def signer_with(pair):
    return signer_of(pair.private.encode(), "the key of a test")


@pytest.mark.parametrize(
    ("window", "holds"),
    [
        ("", True),
        ("@..", True),
        ("@2026-01-01..", True),
        ("@2026-01-01..2026-07-01", True),
        ("@2026-06-30T12:00:00+00:00..2026-06-30T12:00:01+00:00", True),
        ("@2026-07-01..", False),
        ("@..2026-06-30T12:00:00", False),
        ("@2026-01-01..2026-06-30", False),
    ],
)
def test_a_key_is_accepted_for_signatures_of_its_time(pair, window, holds):
    statement = statement_of(signed_files())
    statement["predicate"]["signed_at"] = "2026-06-30T12:00:00.000+00:00"
    content = signer().sign(statement)
    keys = [read_public_key(f"{pair.file}{window}")]
    if holds:
        assert open_envelope(content, keys).files
    else:
        with pytest.raises(WrongSignature, match="at 2026-06-30T12:00:00\\+00:00, when that key was not valid"):
            open_envelope(content, keys)


def test_a_key_may_be_given_twice_for_two_times(pair):
    keys = [read_public_key(f"{pair.file}@{window}") for window in ("..2020-01-01", "2020-01-01..")]
    assert open_envelope(signed_files(), keys).key.since == datetime(2020, 1, 1, tzinfo=UTC)


def statement_of(envelope):
    return json.loads(_payload(envelope))


def test_what_a_key_signed_of_another_kind_is_no_statement(pair):
    statement = statement_of(signed_files())
    for wrong in (
        {"_type": "https://in-toto.io/Statement/v1", "subject": [], "predicateType": "https://x.org", "predicate": {}},
        {"_type": "https://in-toto.io/Statement/v0.1"},
        ["a list"],
        {**statement, "subject": [{"name": "prompt.txt"}]},
        {**statement, "subject": [{"name": "prompt.txt", "uri": "s3://b/prompt.txt", "digest": {"sha512": ""}}]},
        {**statement, "subject": ["prompt.txt"]},
        {**statement, "predicate": {}},
        {**statement, "predicate": {"signed_at": "yesterday"}},
    ):
        with pytest.raises(WrongSignature, match="signed, but"):
            open_envelope(signer().sign(wrong), accepted(pair))


def test_a_signature_is_about_the_file_at_this_address_only(pair):
    signed = open_envelope(signed_files(), accepted(pair))
    signed.check_is_about(MANIFEST, f"s3://bucket/prompts/{MANIFEST}")
    signed.check_is_about(MANIFEST, f"/new/prompts/{MANIFEST}", ["s3://bucket/prompts/"])
    with pytest.raises(WrongSignature, match=rf"signed as s3://bucket/prompts/{MANIFEST}: copied"):
        signed.check_is_about(MANIFEST, f"s3://bucket/others/{MANIFEST}", ["s3://bucket/prom"])
    with pytest.raises(WrongSignature, match="the signature of something else"):
        signed.check_is_about("versions/v1/version.json", "s3://bucket/prompts/versions/v1/version.json")


def test_without_a_key_nothing_is_signed(monkeypatch):
    assert signer() is None
    assert signer(is_needed=False) is None
    check_signing(is_needed=False)


def test_a_key_that_is_asked_for_and_missing_is_named_with_secret_and_variable():
    for ask in (signer, check_signing):
        with pytest.raises(
            ConfigError, match=r"set EASE_SIGNING_KEY \(PEM\) or EASE_SIGNING_KEY_FILE.*Secret ease-sig"
        ):
            ask(is_needed=True)


def test_the_first_stage_of_a_cluster_sees_by_the_public_key_that_there_is_one(pair, monkeypatch):
    monkeypatch.delenv("EASE_SIGNING_KEY")
    monkeypatch.setenv("EASE_SIGNING_PUBLIC_KEY", pair.public)
    check_signing(is_needed=True)
    monkeypatch.setenv("EASE_SIGNING_PUBLIC_KEY", "garbage")
    with pytest.raises(ConfigError, match="EASE_SIGNING_PUBLIC_KEY holds no public key in PEM"):
        check_signing(is_needed=False)


def test_a_key_may_lie_in_a_file(pair, tmp_path, monkeypatch):
    keyid = signer().public.keyid
    monkeypatch.delenv("EASE_SIGNING_KEY")
    (tmp_path / "key.pem").write_text(pair.private)
    monkeypatch.setenv("EASE_SIGNING_KEY_FILE", str(tmp_path / "key.pem"))
    assert signer().public.keyid == keyid
    monkeypatch.setenv("EASE_SIGNING_KEY_FILE", str(tmp_path / "typo.pem"))
    with pytest.raises(ConfigError, match="EASE_SIGNING_KEY_FILE cannot be read: No such file"):
        signer()


@pytest.mark.parametrize(
    ("make", "said"),
    {
        "garbage": (lambda: b"garbage", "EASE_SIGNING_KEY holds no private key in PEM; make one with `openssl"),
        "RSA": (
            lambda: rsa.generate_private_key(65537, 2048).private_bytes(PEM, PKCS8, serialization.NoEncryption()),
            "neither Ed25519 nor ECDSA on P-256",
        ),
        "another curve": (
            lambda: ec.generate_private_key(ec.SECP384R1()).private_bytes(PEM, PKCS8, serialization.NoEncryption()),
            "neither Ed25519 nor ECDSA on P-256",
        ),
        "encrypted": (
            lambda: KINDS["ed25519"]().private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"secret")),
            "is encrypted; store the key without a passphrase",
        ),
        "a public key": (
            lambda: KINDS["ed25519"]().public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            "holds no private key in PEM",
        ),
    }.values(),
)
def test_what_is_no_key_is_named_and_never_shown(make, said, monkeypatch):
    pem = make().decode()
    monkeypatch.setenv("EASE_SIGNING_KEY", pem)
    with pytest.raises(ConfigError, match=said) as raised:
        signer()
    assert not any(line in str(raised.value) for line in pem.splitlines() if line != "garbage")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{missing}", "cannot be read: No such file"),
        ("{private}", "holds no public key in PEM; `openssl pkey -in KEY -pubout` prints it"),
        ("{public}@yesterday..", "yesterday is not a time; write FILE@2026-01-01..2026-07-01"),
        ("{public}@2026-01-01", "cannot be read"),
    ],
)
def test_what_is_no_public_key_is_named(given, said, pair, tmp_path):
    (tmp_path / "key.pem").write_text(pair.private)
    places = {"missing": tmp_path / "typo.pem", "private": tmp_path / "key.pem", "public": pair.file}
    with pytest.raises(ConfigError, match=said):
        read_public_key(given.format(**places))


def test_a_key_shows_neither_itself_nor_any_of_its_lines(pair):
    secrets = secrets_of([("EASE_SIGNING_KEY", pair.private)])
    body = [line for line in pair.private.splitlines() if not line.startswith("-----")]
    assert pair.private not in repr(signer())
    assert signer().public.keyid in repr(signer())
    for line in body:
        assert redacted(f"somebody printed {line} here", secrets) == f"somebody printed {HIDDEN} here"
    assert HIDDEN in redacted(json.dumps(pair.private), secrets)
    assert not any(line in redacted(json.dumps(pair.private), secrets) for line in body)
