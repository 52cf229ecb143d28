"""Requests to an endpoint (LLM, judge or embedder): JSON over persistent connections.

`openai` says with which headers; requests are sent by aiohttp, because a request through `openai` costs
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
from urllib.parse import urljoin, urlsplit

import certifi

from ease_lib.black_box.failures import NO_KEY, Moved, Proxy, Refusal
from ease_lib.errors import ConfigError
from ease_lib.urls import endpoint_url, is_loopback, may_follow, url_below, without_credentials

if TYPE_CHECKING:
    import aiohttp
    import openai

KEPT_SECONDS = 4.0
"""How long an idle connection is kept: many servers close theirs after 5 s, perhaps with a request on its way."""
FOLLOWED = 301, 302, 307, 308
"""Statuses whose redirect is followed; 303 leads to another resource."""
FOR_GOOD = 301, 308
MOST_MOVES = 5


class Transport:
    """Connections to one endpoint, opened with the first request; lives in one event loop.

    A request that is sent on (301, 302, 307, 308) goes on with the same method, and only to where the key may go too
    (`urls.may_follow`).

    Args:
        base_url: of the endpoint; a query (Azure's `?api-version=...`) is sent with every request. Empty is where the
            OpenAI library goes by itself.
        key: secret of the endpoint, or empty.
        timeout_seconds: from the sending of a request to the end of its answer.
        headers: more of them; they win over those of the library.

    Raises:
        ConfigError: if the environment names a proxy that cannot be used.
    """

    def __init__(
        self, base_url: str, key: str, timeout_seconds: float, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._named = base_url, key
        self._own_headers = headers
        self.base_url = endpoint_url(base_url or str(openai_client(*self._named).base_url))
        parts = urlsplit(self.base_url)
        self.proxy = proxy_of(parts.scheme, parts.hostname or "")
        self._moved_to: dict[str, str] = {}
        """Address that the endpoint redirects to, by path."""
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    @property
    def shown_url(self) -> str:
        """URL in a form that may be shown."""
        return without_credentials(self.base_url)

    async def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """Response of the endpoint to this content at a path below its URL; its text if it is not JSON.

        Raises:
            Refusal: where it answers with another status than success, or with an error in place of an answer.
            Moved: where it sends the request on to where the key may not go.
            ValueError: if the answer says that it is JSON, and is not.
            aiohttp.ClientError, TimeoutError: where none came.
        """
        return await self._answer("POST", path, json.dumps(content).encode())

    async def get(self, path: str) -> Any:
        """Get what the endpoint has at a path; errors are those of `post`."""
        return await self._answer("GET", path, None)

    async def _answer(self, method: str, path: str, content: bytes | None) -> Any:
        session = self._session or self._open()
        url = self._moved_to.get(path) or url_below(self.base_url, path)
        for _ in range(MOST_MOVES + 1):
            async with session.request(method, url, data=content, allow_redirects=False) as answer:
                body = await answer.read()
            if not 300 <= answer.status < 400 or "location" not in answer.headers:
                return _read(answer, body)
            try:
                place = urljoin(url, answer.headers["location"])
            except ValueError:
                raise Moved(answer.status, url) from None
            if answer.status not in FOLLOWED or not may_follow(url, place):
                raise Moved(answer.status, endpoint_url(place))
            url = place
            if answer.status in FOR_GOOD:
                self._moved_to[path] = place
        raise Moved(answer.status, endpoint_url(place))

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp  # 0.2 s, and `openai` most of one: a stage whose answers are all known opens nothing

        self._session = aiohttp.ClientSession(
            headers=self._headers(),
            connector=aiohttp.TCPConnector(limit=0, ssl=trusted_authorities(), keepalive_timeout=KEPT_SECONDS),
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=self.proxy.url if self.proxy else None,
        )
        return self._session

    def _headers(self) -> dict[str, str]:
        client = openai_client(*self._named)
        said = {**client.default_headers, **client.auth_headers}
        own = {name.lower() for name in self._own_headers}
        kept = {name: value for name, value in said.items() if isinstance(value, str) and name.lower() not in own}
        return {**kept, **self._own_headers}


def _read(answer: aiohttp.ClientResponse, body: bytes) -> Any:
    if not 200 <= answer.status < 300:
        raise Refusal.of_response(answer.status, answer.headers, body)
    try:
        content = json.loads(body)
    except ValueError:
        if "json" in answer.content_type:
            raise
        return body.decode(errors="replace")
    if refusal := Refusal.within(content, answer.headers):
        raise refusal
    return content


def openai_client(base_url: str, key: str) -> openai.AsyncOpenAI:
    """The library's client of an endpoint, which says where it is and with which headers it is asked; Azure takes its
    key in a header of its own. Nothing is sent by it.
    """
    import openai  # see `failures.is_of_openai`

    on_azure = (urlsplit(base_url).hostname or "").endswith(".azure.com")
    return openai.AsyncOpenAI(
        base_url=base_url or None,
        default_headers={"api-key": key} if on_azure and key else None,
        api_key=key or NO_KEY,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False, verify=trusted_authorities()),
    )


def trusted_authorities() -> ssl.SSLContext:
    """The authorities of `SSL_CERT_FILE` or `SSL_CERT_DIR`; without them the system's and certifi's."""
    named = [value for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if (value := os.environ.get(name))]
    return _authorities(
        *((path, os.stat(path).st_mtime_ns) for path in named if os.path.exists(path)), is_own=bool(named)
    )


@cache
def _authorities(*state: tuple[str, int], is_own: bool) -> ssl.SSLContext:
    """Certificates shared by all clients while the files are unchanged; reading them takes 50 ms."""
    context = ssl.create_default_context()
    if not is_own:
        context.load_verify_locations(certifi.where())
    return context


def proxy_of(scheme: str, host: str) -> Proxy | None:
    """The proxy that the environment names for this host (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`); none
    leads to this machine itself.

    Raises:
        ConfigError: for what is not a URL, and one that speaks SOCKS, which the HTTP libraries do not without further
            packages.
    """
    proxies = urllib.request.getproxies()
    name = scheme if proxies.get(scheme) else "all"
    url = proxies.get(name)
    if not url or is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxy = Proxy(url if "://" in url else f"http://{url}", f"{name.upper()}_PROXY")
    if not _is_url_of_proxy(proxy.url):
        raise ConfigError(
            f"{proxy.variable} is not the URL of a proxy; set it to http://HOST:PORT, or NO_PROXY={host} if no proxy "
            "is needed"
        )
    if proxy.url.lower().startswith("socks"):
        raise ConfigError(
            f"{proxy.variable}={without_credentials(proxy.url)}: only HTTP proxies are supported; set "
            f"{scheme.upper()}_PROXY=http://HOST:PORT (privoxy, for example, forwards HTTP to SOCKS), or "
            f"NO_PROXY={host} "
            "if no proxy is needed"
        )
    return proxy


def _is_url_of_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") or parts.scheme.startswith("socks")
        return known and bool(parts.hostname) and parts.port != 0 and not any(map(str.isspace, url))
    except ValueError:
        return False
