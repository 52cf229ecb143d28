"""Secrets from the environment: which key may be sent to which endpoint, and the key that signs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ease_lib.equality import code_point
from ease_lib.errors import ConfigError

OPENAI_KEY = "OPENAI_API_KEY"
OPENAI_DOMAIN = "openai.com"
OPENAI_URL = "https://api.openai.com/v1"
SIGNING_KEY, SIGNING_KEY_FILE = "EASE_SIGNING_KEY", "EASE_SIGNING_KEY_FILE"
SIGNING_PUBLIC_KEY = "EASE_SIGNING_PUBLIC_KEY"
"""Variable of the public key, for processes that do not sign and so lack the private key."""

_OF_KEYS = re.compile("auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
"""Words in a header's name that mark a secret; `X-Team` and `anthropic-version` contain none of them."""
_QUOTES = "\"'`\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
_secret_headers: set[tuple[str, str]] = set()


def endpoint_key(url: str, variable: str) -> str:
    """The key for an endpoint, or empty if there is none for it.

    Args:
        url: of the endpoint; empty is where the OpenAI library goes by itself.
        variable: the environment variable that was set for this endpoint, whatever its host. `OPENAI_API_KEY`, which
            may be set for other programs, is sent to OpenAI's own hosts over TLS and to no other host.

    Raises:
        ConfigError: on what no header can hold as a key.
    """
    for name in (variable, *([OPENAI_KEY] if _is_openai(url) else [])):
        if key := header_value(name):
            if problem := _problem_of_key(key):
                raise ConfigError(f"{name} {problem}")
            return key
    return ""


def header_value(variable: str) -> str:
    """Return the value of a header from this environment variable; empty if it is not set.

    Blanks around it are not part of it: a key read from a file ends with a line's end, which no header may hold.

    Raises:
        ConfigError: on a character that no header can hold.
    """
    value = os.environ.get(variable, "").strip()
    if found := re.search(r"[\x00-\x08\x0a-\x1f\x7f\udc80-\udcff]", value):
        raise ConfigError(
            f"{variable} holds {code_point(found[0])} within its value, which a header cannot hold; write it on one "
            "line, or export it again"
        )
    return value


def _problem_of_key(key: str) -> str:
    """Problem of a key, as half a sentence that does not show the key."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        return "begins or ends with a quotation mark, which is not part of a key; export it without the mark"
    if re.match(r"(?i)bearer\s", key):
        return "begins with `Bearer`, which is added automatically; export only the key"
    if found := re.search(r"[^\x21-\x7e]", key):
        return f"holds {code_point(found[0])}, which no key contains; copy it again from where it was made"
    return ""


def sent_header(name: str, variable: str) -> str:
    """Return the header's value like `header_value`; if the header's name is that of a key, the value counts as a
    secret from now on."""
    value = header_value(variable)
    if _OF_KEYS.search(name):
        _secret_headers.add((variable, value))
    return value


def secret_headers() -> list[tuple[str, str]]:
    """Headers with keys that this process read from variables, whatever the variables are called."""
    return sorted(_secret_headers)


def signing_key() -> tuple[bytes, str]:
    """The private key in PEM, and the variable that has it or names its file; empty if there is none.

    Raises:
        OSError: when the file cannot be read.
    """
    text, path = os.environ.get(SIGNING_KEY, ""), os.environ.get(SIGNING_KEY_FILE, "")
    if text or not path:
        return text.encode(), SIGNING_KEY
    return Path(path).read_bytes(), SIGNING_KEY_FILE


def signing_public_key() -> str:
    """The public key in PEM, or empty."""
    return os.environ.get(SIGNING_PUBLIC_KEY, "")


def _is_openai(url: str) -> bool:
    parts = urlsplit(url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    host = (parts.hostname or "").lower()
    return parts.scheme == "https" and (host == OPENAI_DOMAIN or host.endswith(f".{OPENAI_DOMAIN}"))
