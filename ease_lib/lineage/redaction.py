"""Take secrets out of text that is kept: records, published files, error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

HIDDEN = "(redacted)"
SHORTEST_SECRET = 6
"""Shorter values of the environment would be found everywhere."""
SECRET_NAMES = re.compile(r"(^|_)(API)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|COOKIES?)(_|$)", re.IGNORECASE)
_URL_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s?#@]*@", re.IGNORECASE)
_URL_QUERY = re.compile(r"(?P<url>\b[a-z][a-z0-9+.-]*://[^\s?#\"'<>]*)\?[^\s#\"'<>]*", re.IGNORECASE)
_HEADER = re.compile(r"\b(?P<kind>bearer|basic)\s+[a-z0-9._~+/=-]{8,}", re.IGNORECASE)
_KEY = re.compile(r"\b(?:sk|pk|hf|ghp|xox[abp])[-_][A-Za-z0-9_-]{8,}|\bAKIA[0-9A-Z]{12,}")


def secrets_of(environment: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Values of the variables whose names say that they are secret, the longest first."""
    values = {value for name, value in environment if SECRET_NAMES.search(name) and len(value) >= SHORTEST_SECRET}
    return tuple(sorted(values, key=len, reverse=True))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, users and queries of URLs (signed ones), authorisation headers and known keys."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = _URL_USER.sub(r"\g<scheme>", text)
    text = _URL_QUERY.sub(r"\g<url>", text)
    text = _HEADER.sub(rf"\g<kind> {HIDDEN}", text)
    return _KEY.sub(HIDDEN, text)


def redacted_document(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with every string in it redacted, keys too."""
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, dict):
        return {redacted_document(key, secrets): redacted_document(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_document(item, secrets) for item in value]
    return value
