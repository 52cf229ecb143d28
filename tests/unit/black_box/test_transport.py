"""How a request gets to the endpoint: through the proxy, and to whom the environment says to trust."""

import asyncio
import gzip
import shutil
import ssl
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ease_lib.black_box.client import OpenAIClient, Sampling
from ease_lib.black_box.transport import Transport, proxy_of, trusted_authorities
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    EndpointError,
    Overloaded,
    WrongAddress,
)
from ease_lib.notes import Notes
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served
from tests.support.runs import open_black_box


def posted(base_url):
    async def post():
        transport = Transport(base_url, "", 5.0)
        try:
            return await transport.post("completions", {"model": MODEL, "prompt": "hi"})
        finally:
            await transport.close()

    return asyncio.run(post())["choices"][0]["text"]


@pytest.fixture
def without_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_proxy_of_the_environment_is_asked(monkeypatch, without_proxies):
    with faulty_endpoint(lambda prompt: "through the proxy") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        assert posted("http://llm.invalid/v1") == "through the proxy"


def test_hosts_that_need_no_proxy_are_asked_directly(monkeypatch, without_proxies):
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "localhost,.svc")
    assert proxy_of("https", "llm.example.org") == ("http://proxy:3128", "HTTPS_PROXY")
    assert proxy_of("https", "vllm.models.svc") is None
    assert proxy_of("http", "llm.example.org") is None


def test_a_proxy_that_speaks_socks_is_named_with_what_to_do(monkeypatch, without_proxies):
    monkeypatch.setenv("all_proxy", "socks5://me:secret@proxy:1080")
    with pytest.raises(ConfigError, match=r"ALL_PROXY=socks5://proxy:1080: .* set HTTPS_PROXY=.*NO_PROXY=llm\.example"):
        Transport("https://llm.example.org/v1", "", 1.0)
    monkeypatch.setenv("no_proxy", "llm.example.org")
    assert Transport("https://llm.example.org/v1", "", 1.0).proxy is None


@pytest.mark.parametrize("proxy", ["http://[x", "htp://x:1", "http://us er@h:1", "http://:3128"])
def test_a_proxy_that_is_no_url_is_named(proxy, monkeypatch, without_proxies):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigError, match="HTTP_PROXY is not the URL of a proxy; set it to http://HOST:PORT"):
        proxy_of("http", "llm.example.org")


def test_no_proxy_leads_to_this_machine(monkeypatch, without_proxies):
    """A proxy's `localhost` is another machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with faulty_endpoint(lambda prompt: "directly") as server:
        assert posted(server.base_url) == "directly"
        assert posted(server.base_url.replace("127.0.0.1", "localhost")) == "directly"


class Proxying(OpenAIRoutesHandler):
    """A proxy that refuses everything, with a status of its own."""

    status = 502

    def do_POST(self):
        self.send_error(self.status, "no way")

    do_CONNECT = do_POST


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (407, AuthenticationFailed, "asks for a user (407); set {}=http://USER:PASSWORD@HOST:PORT"),
        (502, Overloaded, "answered 502"),
        (503, Overloaded, "answered 503"),
    ],
)
def test_a_proxy_that_fails_is_named(scheme, status, kind, words, monkeypatch, without_proxies):
    server = OpenAIRoutesServer({})
    server.RequestHandlerClass = type("Failing", (Proxying,), {"status": status})
    with served(server):
        address = f"127.0.0.1:{server.server_address[1]}"
        variable = f"{scheme.upper()}_PROXY"
        monkeypatch.setenv(variable, f"http://me:secret@{address}")
        with pytest.raises(kind) as raised:
            asked(f"{scheme}://llm.invalid/v1")
    said = str(raised.value)
    assert f"the proxy http://{address} of {variable}" in said
    assert words.format(variable) in said
    assert "secret" not in said


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "127.0.0.1:9"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_dead_is_named(scheme, proxy, monkeypatch, without_proxies):
    monkeypatch.setenv("ALL_PROXY", proxy)
    words = r"the proxy http://127.0.0.1:9 of ALL_PROXY cannot be reached; correct ALL_PROXY, or set NO_PROXY"
    with pytest.raises(ConnectionFailed, match=words):
        asked(f"{scheme}://llm.invalid/v1")


def asked(url, key=""):
    """One answer, through the client that names failures."""

    async def once():
        client = OpenAIClient(
            base_url=url,
            model=MODEL,
            api="chat",
            key=key,
            sampling=Sampling(max_tokens=8, stop="\n"),
            timeout_seconds=5.0,
            notes=Notes(),
        )
        try:
            return (await client.complete("hi")).text
        finally:
            await client.close()

    return asyncio.run(once())


class Moving(OpenAIRoutesHandler):
    """Sends every request below `/old` on to `place`."""

    status, place = 301, ""

    def do_POST(self):
        self.server.met.append((self.path, self.headers.get("authorization")))
        if not self.path.startswith("/old"):
            super().do_POST()
            return
        self.rfile.read(int(self.headers["content-length"]))
        self.reply(self.status, {}, {"location": self.place + self.path.removeprefix("/old")})


@contextmanager
def moved(status, place=""):
    server = OpenAIRoutesServer({MODEL: lambda prompt: "found"})
    server.met = []
    server.RequestHandlerClass = type("Sent", (Moving,), {"status": status, "place": place})
    with served(server):
        yield server


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_endpoint_that_moved_on_its_host_is_followed_with_the_same_method(status, without_proxies):
    with moved(status) as server:
        assert asked(server.base_url.replace("/v1", "/old/v1"), key="sk-1") == "found"
    assert server.met == [(path, "Bearer sk-1") for path in ("/old/v1/chat/completions", "/v1/chat/completions")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_key_is_not_sent_on_to_another_host(status, without_proxies):
    with moved(status) as other, moved(status, other.base_url.removesuffix("/v1")) as server:
        words = rf"answered {status}: it has moved to {other.base_url}; set llm_base_url to the new address"
        with pytest.raises(WrongAddress, match=words):
            asked(server.base_url.replace("/v1", "/old/v1"), key="sk-1")
    assert other.met == []


def test_places_that_send_on_to_each_other_come_to_an_end(without_proxies):
    with moved(302, "/old") as server, pytest.raises(WrongAddress, match="it has moved to"):
        asked(server.base_url.replace("/v1", "/old/v1"))
    assert len(server.met) == 6


@pytest.mark.parametrize("path", ["", "/", "/?api-version=1"])
def test_a_url_without_a_path_goes_to_its_host(path, without_proxies):
    """It was `http://127.0.0.1:8000chat/completions`, to another host where no port is named."""
    with moved(301) as server, suppress(EndpointError):
        asked(server.base_url.removesuffix("/v1") + path)
    assert server.met[0][0] == "/chat/completions" + path.lstrip("/")


def test_https_to_a_port_of_http_says_so(without_proxies):
    with (
        faulty_endpoint(lambda prompt: "plain") as server,
        pytest.raises(WrongAddress, match="write http:// in llm_base"),
    ):
        asked(server.base_url.replace("http://", "https://"))


def test_a_private_authority_stands_in_for_all_others(monkeypatch, tmp_path):
    everybody = trusted_authorities().get_ca_certs()
    first = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    (tmp_path / "ours.pem").write_text(first[0] + first[1])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ours.pem"))
    ours = trusted_authorities()
    assert ours.verify_mode is ssl.CERT_REQUIRED
    assert len(ours.get_ca_certs()) == 1 < len(everybody)
    shutil.copy(certifi.where(), tmp_path / "ours.pem")  # mended where a program goes on
    assert len(trusted_authorities().get_ca_certs()) > 1


@contextmanager
def private_endpoint(folder, host="127.0.0.1", days=30):
    """An endpoint behind TLS, and the certificate that it signed itself: for a host, valid from a year ago on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "private")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = folder / "certificate.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "both.pem").write_bytes(certificate.read_bytes() + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    with faulty_endpoint(lambda prompt: "in private") as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server.base_url.replace("http:", "https:"), certificate


def test_an_endpoint_with_a_private_authority_is_asked_once_that_is_trusted(tmp_path, monkeypatch):
    with private_endpoint(tmp_path) as (url, certificate):
        for model in ("", MODEL):  # looked up first
            config = EndpointConfig(llm_base_url=url, llm_model=model, llm_deadline_seconds=30.0)
            monkeypatch.delenv("SSL_CERT_FILE", raising=False)
            with pytest.raises(
                AuthenticationFailed, match=r"not trusted here \(self.signed certificate\); set SSL_CERT_FILE"
            ):
                answered(config)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert answered(config) == "in private"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"days": -1}, r"\(certificate has expired\); ask who runs it to renew it, or correct the clock"),
        ({"host": "10.0.0.1"}, r"mismatch, .*\); write the host that the certificate is for into llm_base_url"),
    ],
)
def test_a_certificate_that_does_not_hold_says_why(made, words, tmp_path, monkeypatch):
    """Setting `SSL_CERT_FILE` would not help."""
    with private_endpoint(tmp_path, **made) as (url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(AuthenticationFailed, match=words):
            asked(url)


def answered(config):
    with open_black_box(config, sampling=Sampling(max_tokens=8, stop="\n"), store_uri="") as black_box:
        return black_box.loop.run(black_box.client.complete("hi")).text


def test_a_compressed_answer_is_read():
    def compressed(handler, prompt):
        content = gzip.compress(b'{"choices": [{"text": "small"}]}')
        handler.send_response(200)
        for name, value in {"content-type": "application/json", "content-encoding": "gzip"}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    with faulty_endpoint(lambda prompt: "never", compressed) as server:
        assert posted(server.base_url) == "small"
