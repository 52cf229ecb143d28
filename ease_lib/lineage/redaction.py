"""Redaction of secrets in kept text: records, published files, error messages.

Addresses must stay usable, or the files that a record names could not be found again. So only parts that are nothing
but secrets are removed: users and queries of URLs, authorisation headers, values of secret variables, and keys of known
shapes; the last two only if they are long and random enough. `ollama` as a key, a folder `hf_datasets` and "basic
training" stay.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

HIDDEN = "(redacted)"
SHORTEST_SECRET = 8
LONG_SECRET = 20
"""Length from which on any value is a secret, for passwords made of words; `lm-studio` is too short."""
LONGEST_WORD, FEWEST_KINDS = 16, 11
"""A key of known shape has this many letters and digits in a row, of as many kinds; a timestamp has ten at most."""
LEAST_TURNS = 0.2
"""Least share of neighbours that change case or switch between letter and digit in a key separated by - and _; random
text has 0.5."""
SECRET_NAMES = re.compile(r"(^|_)(API)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|COOKIES?)(_|$)", re.IGNORECASE)
ADDRESS_NAMES = re.compile(r"_(FILE|PATH|DIR|FOLDER|NAME)$", re.IGNORECASE)
"""Variables that name the place of a secret, such as AWS_WEB_IDENTITY_TOKEN_FILE."""

_URL_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s?#\"<>]*@", re.IGNORECASE)
_URL_QUERY = re.compile(r"(?P<url>\b[a-z][a-z0-9+.-]*://[^\s?#\"'<>]*)\?(?P<query>[^\s#\"'<>]*)", re.IGNORECASE)
_KEYED = re.compile(r"(s3|minio|file):", re.IGNORECASE)
"""Schemes whose names may hold a question mark; what follows it is a query only as `name=value`."""
_AUTHORISATION = re.compile(
    r"(?P<head>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|key|apikey|digest|aws4-hmac-sha256)\s+)?)"
    r"(?P<value>[^\s\"',;]+)",
    re.IGNORECASE,
)
_AUTHORISATION_FIELDS = re.compile(
    r"(?P<head>\bauthorization[\"']?\s*[:=]\s*[\"']?[A-Za-z][\w-]*\s+)(?P<value>[\w-]+=[^\r\n]*)", re.IGNORECASE
)
"""A scheme with fields, as Digest has."""
_KEY_HEADER = re.compile(
    r"(?P<head>\b(?:api[-_]?key|(?:[a-z]+-)+(?:key|token|secret)|password|sig)[\"']?\s*[:=]\s*[\"']?)"
    r"(?P<value>[^\s\"',;&]+)"
    r"|(?P<head2>\b(?:set-)?cookie[\"']?\s*[:=]\s*[\"']?)(?P<value2>[^\s\"']+=[^\r\n\"']*)"
    r"|(?P<head3>\bsignature=)(?P<value3>[^\s\"',;&]+)",
    re.IGNORECASE,
)
"""Headers that hold a key, whatever their service calls them, cookies to the line's end, and signatures of requests."""
_SCHEME = re.compile(r"\b(?P<kind>bearer|basic)(?P<space>\s+)(?P<value>[a-z0-9._~+/=-]{8,})", re.IGNORECASE)
_NO_WORD = re.compile("[^A-Za-z._/: -]")
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_SHAPES = (
    "(?:AKIA|ASIA)[0-9A-Z]{16}",
    "AIza[0-9A-Za-z_-]{35}",
    r"eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*",
)
_KEY = re.compile(rf"{_START}(?:{'|'.join(_SHAPES)})")
_PREFIXES = "sk|pk|rk|hf|gh[opsur]|github_pat|glpat|xox[abeprs]|gsk|xai|nvapi|r8|pplx"
_PREFIXED = re.compile(rf"{_START}(?P<prefix>(?:{_PREFIXES})[-_])(?P<rest>[A-Za-z0-9_-]{{8,}})")


def secrets_of(environment: Iterable[tuple[str, str]], headers: Iterable[tuple[str, str]] = ()) -> tuple[str, ...]:
    """Values of variables that have a secret's name and look like a secret, the longest first.

    Of several lines, as a key in PEM has, each is a secret too.

    Args:
        headers: variables that were sent as headers, whatever they are called; of `Token abc` the last word is one too.
    """
    named = {value for name, value in environment if SECRET_NAMES.search(name) and not ADDRESS_NAMES.search(name)}
    named |= {secret for _, value in headers for secret in (value, value.rpartition(" ")[2])}
    lines = {line for value in named for line in value.splitlines() if not line.startswith("-----")}  # of keys in PEM
    values = {value for value in named | lines if looks_secret(value)}
    return tuple(sorted(values, key=len, reverse=True))


def looks_secret(value: str) -> bool:
    """Whether a value is too long or too random for a word: at least `SHORTEST_SECRET` characters, no plain words."""
    if len(value) < SHORTEST_SECRET:
        return False
    return len(value) >= LONG_SECRET or bool(_NO_WORD.search(value)) or _changes_case(value)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, users and queries of URLs (signed ones), authorisation headers and known keys.

    Args:
        secrets: a long random one is removed everywhere, another one where it is not part of a longer word.
    """
    for secret in secrets:
        text = _without(text, secret)
    text = _URL_USER.sub(r"\g<scheme>", text)
    text = _URL_QUERY.sub(_without_query, text)
    text = _AUTHORISATION_FIELDS.sub(rf"\g<head>{HIDDEN}", text)
    text = _AUTHORISATION.sub(_without_header, text)
    text = _KEY_HEADER.sub(_without_key, text)
    text = _SCHEME.sub(_without_credentials, text)
    text = _KEY.sub(HIDDEN, text)
    return _PREFIXED.sub(lambda found: HIDDEN if _is_key(found["prefix"], found["rest"]) else found[0], text)


def redacted_document(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with every string in it redacted, keys too."""
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, dict):
        return {redacted_document(key, secrets): redacted_document(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_document(item, secrets) for item in value]
    return value


def _without(text: str, secret: str) -> str:
    if secret not in text:
        return text
    if len(secret) >= LONG_SECRET and _has_digit(secret):
        return text.replace(secret, HIDDEN)
    return re.sub(rf"{_START}{re.escape(secret)}(?![A-Za-z0-9])", HIDDEN, text)


def _without_query(found: re.Match[str]) -> str:
    is_part_of_name = _KEYED.match(found["url"]) and "=" not in found["query"]
    return found[0] if is_part_of_name else found["url"]


def _without_header(found: re.Match[str]) -> str:
    names_scheme = found["head"][-1].isspace() and re.search(r"[\w-]\s+$", found["head"])
    return f"{found['head']}{HIDDEN}" if names_scheme or looks_secret(found["value"]) else found[0]


def _without_key(found: re.Match[str]) -> str:
    if found["value"] and not looks_secret(found["value"]):
        return found[0]
    return f"{found['head'] or found['head2'] or found['head3']}{HIDDEN}"


def _without_credentials(found: re.Match[str]) -> str:
    """Redact only a token, or the base64 of user and password, after `Bearer` and `Basic`, which are also words."""
    is_secret = _is_user(found["value"]) if found["kind"].lower() == "basic" else looks_secret(found["value"])
    return f"{found['kind']}{found['space']}{HIDDEN}" if is_secret else found[0]


def _is_user(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def _is_key(prefix: str, rest: str) -> bool:
    """Whether what follows a key's prefix is random: letters and digits in a row, or cut at random places."""
    word = max(re.split("[-_]", rest), key=len)
    is_mixed = _has_digit(word) or _changes_case(word)
    if len(word) >= LONG_SECRET and is_mixed:
        return True
    if len(word) >= LONGEST_WORD and len(set(word)) >= FEWEST_KINDS and (is_mixed or prefix == "sk-"):
        return True
    return len(rest) >= LONG_SECRET and _turns(rest) >= LEAST_TURNS


def _turns(text: str) -> float:
    """Share of neighbouring characters at which letters and digits, or cases, alternate; names have a low share."""
    pairs = [pair for word in re.split("[-_]", text) for pair in pairwise(word)]
    turns = [
        (one.isdigit() and other.isalpha()) or (one.isalpha() and other.isalpha() and one.islower() != other.islower())
        for one, other in pairs
    ]
    return sum(turns) / len(turns) if turns else 0.0


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _changes_case(text: str) -> bool:
    """Whether a word mixes capitals and small letters as neither `ollama` nor `Ollama` nor `OLLAMA` does."""
    words = re.split("[^A-Za-z]", text)
    return any(word not in (word.lower(), word.upper(), word.capitalize()) for word in words)
