"""URLs of endpoints: their problems, routes below them, and comparison of hosts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit, urlunsplit

SCHEMES = {"http": 80, "https": 443}
"""Schemes with their default ports."""
ROUTES = "/chat/completions", "/completions", "/embeddings", "/models"
"""Endings of a URL that was copied whole, for example from a curl command."""
VERSION_IN_PATH = re.compile(r"//.*/v\d")


def is_url(name: str) -> bool:
    """Whether an endpoint is behind a URL."""
    return not list(problems_of_url(name))


def problems_of_url(url: str) -> Iterator[str]:
    """Reason why this is not the URL of an endpoint, as half a sentence."""
    if found := re.search(r"[\s\\\x00-\x1f\x7f\u200b-\u200f\ufeff]", url):
        yield f"holds {found[0]!r}, which a URL cannot contain; remove it"
        return
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        yield f"is not a URL ({error}); write one like https://host/v1"
        return
    if parts.scheme not in SCHEMES or not parts.hostname or port == 0:
        yield "is not an http(s) URL like https://host/v1"
    elif "@" in parts.netloc:
        yield "holds a user or password; remove it, and export the key"


def endpoint_url(url: str) -> str:
    """The URL that routes are below: without a slash at the end, a fragment, and a route that was copied with it."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for route in ROUTES:
        path = path.removesuffix(route).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def url_below(url: str, path: str) -> str:
    """The URL of a route, with the query that every request to the endpoint carries (Azure's `?api-version=...`)."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{path}", parts.query, ""))


def without_credentials(url: str) -> str:
    """The URL without user, password and query: fit to be shown and recorded."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def may_follow(url: str, other: str) -> bool:
    """Whether a key that was meant for one URL may go to another one: the same host and port, and no less encrypted."""
    try:
        one, two = urlsplit(url), urlsplit(other)
        same_port = _port(one) == _port(two)
    except ValueError:
        return False
    if two.scheme not in SCHEMES or one.hostname != two.hostname or two.username:
        return False
    is_upgrade = (one.scheme, two.scheme) == ("http", "https")
    return same_port if one.scheme == two.scheme else is_upgrade and (same_port or _has_usual_ports(one, two))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which no proxy leads to."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _port(parts: SplitResult) -> int | None:
    return parts.port or SCHEMES.get(parts.scheme)


def _has_usual_ports(one: SplitResult, two: SplitResult) -> bool:
    return _port(one) == SCHEMES["http"] and _port(two) == SCHEMES["https"]
