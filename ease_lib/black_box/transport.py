"""The one request that is sent hundreds of thousands of times: a POST of JSON over connections that are kept.

`openai` says where it goes and with which headers; it is sent by aiohttp, because a request through `openai` costs
more time than a fast server takes to answer (`tests/benchmarks/client.py`).
"""

from __future__ import annotations

import json
import os
import ssl
import urllib.request
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import certifi

from ease_lib.black_box.failures import NO_KEY, Refusal, without_credentials
from ease_lib.errors import ConfigError

if TYPE_CHECKING:
    import openai

KEPT_SECONDS = 4.0
"""How long an idle connection is kept: many servers close theirs after 5 s, perhaps with a request on its way."""


class Transport:
    """Connections to one endpoint, opened with the first request; lives in one event loop.

    Args:
        base_url: of the endpoint; a query (Azure's `?api-version=...`) is sent with every request.
        key: secret of the endpoint, or empty.
        timeout_seconds: from the sending of a request to the end of its answer.
        headers: more of them; they win over those of the library.
    """

    def __init__(
        self, base_url: str, key: str, timeout_seconds: float, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        client = openai_client(base_url, key, timeout_seconds)
        said = {**client.default_headers, **client.auth_headers}
        own = {name.lower() for name in headers}
        kept = {name: value for name, value in said.items() if isinstance(value, str) and name.lower() not in own}
        self._headers = {**kept, **headers}
        self._base_url = str(client.base_url)
        query = urlencode({str(name): str(value) for name, value in client.default_query.items()})
        self._query = f"?{query}" if query else ""
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """What the endpoint answers to this content at a path below its URL; its text, where that is no JSON at all.

        Raises:
            Refusal: where it answers with another status than success.
            ValueError: where the answer says that it is JSON, and is not.
            aiohttp.ClientError, TimeoutError: where none came.
        """
        session = self._session or self._open()
        async with session.post(f"{self._base_url}{path}{self._query}", data=json.dumps(content).encode()) as answer:
            body = await answer.read()
        if not 200 <= answer.status < 300:
            raise Refusal.of_response(answer.status, answer.headers, body)
        try:
            return json.loads(body)
        except ValueError:
            if "json" in answer.content_type:
                raise
            return body.decode(errors="replace")

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        parts = urlsplit(self._base_url)
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            connector=aiohttp.TCPConnector(limit=0, ssl=trusted_authorities(), keepalive_timeout=KEPT_SECONDS),
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_of(parts.scheme, parts.hostname or ""),
        )
        return self._session


def openai_client(base_url: str, key: str, timeout_seconds: float) -> openai.AsyncOpenAI:
    """The library's client of an endpoint; Azure takes its key in a header of its own.

    Raises:
        ConfigError: where the environment names a proxy that cannot be used.
    """
    import openai  # see `failures.is_of_openai`

    parts = urlsplit(base_url)
    on_azure = (parts.hostname or "").endswith(".azure.com")
    return openai.AsyncOpenAI(
        base_url=parts._replace(query="").geturl(),
        default_query=dict(parse_qsl(parts.query)),
        default_headers={"api-key": key} if on_azure and key else None,
        api_key=key or NO_KEY,
        timeout=timeout_seconds,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            proxy=proxy_of(parts.scheme, parts.hostname or ""), trust_env=False, verify=trusted_authorities()
        ),
    )


def trusted_authorities() -> ssl.SSLContext:
    """The authorities of `SSL_CERT_FILE` or `SSL_CERT_DIR`; without them the system's and certifi's."""
    named = [value for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if (value := os.environ.get(name))]
    return _authorities(
        *((path, os.stat(path).st_mtime_ns) for path in named if os.path.exists(path)), is_own=bool(named)
    )


@cache
def _authorities(*state: tuple[str, int], is_own: bool) -> ssl.SSLContext:
    """Once for all clients, as long as the files are as they were: to read them takes 50 ms."""
    context = ssl.create_default_context()
    if not is_own:
        context.load_verify_locations(certifi.where())
    return context


def proxy_of(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for this host (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).

    Raises:
        ConfigError: for one that speaks SOCKS, which the HTTP libraries do not without further packages.
    """
    proxies = urllib.request.getproxies()
    name = scheme if proxies.get(scheme) else "all"
    proxy = proxies.get(name)
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    if proxy.lower().startswith("socks"):
        raise ConfigError(
            f"{name.upper()}_PROXY={without_credentials(proxy)}: only proxies that speak HTTP are used; set "
            f"{scheme.upper()}_PROXY=http://HOST:PORT (privoxy, for one, leads from HTTP to SOCKS), or NO_PROXY={host} "
            "where none is needed"
        )
    return proxy
