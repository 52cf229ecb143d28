"""How a request gets to the endpoint: through the proxy, and to whom the environment says to trust."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
from pathlib import Path

import certifi
import pytest

from ease_lib.black_box.client import Sampling
from ease_lib.black_box.transport import Transport, openai_client, proxy_of, trusted_authorities
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import AuthenticationFailed, ConfigError
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
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
    assert proxy_of("https", "llm.example.org") == "http://proxy:3128"
    assert proxy_of("https", "vllm.models.svc") is None
    assert proxy_of("http", "llm.example.org") is None


def test_a_proxy_that_speaks_socks_is_named_with_what_to_do(monkeypatch, without_proxies):
    monkeypatch.setenv("all_proxy", "socks5://me:secret@proxy:1080")
    with pytest.raises(ConfigError, match=r"ALL_PROXY=socks5://proxy:1080: .* set HTTPS_PROXY=.*NO_PROXY=llm\.example"):
        openai_client("https://llm.example.org/v1", "", 1.0)
    monkeypatch.setenv("no_proxy", "llm.example.org")
    assert str(openai_client("https://llm.example.org/v1", "", 1.0).base_url) == "https://llm.example.org/v1/"


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


@pytest.fixture
def private_endpoint(tmp_path):
    """An endpoint behind TLS, and the certificate that it signed itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=private", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        key,
        "-out",
        certificate,
        *subject,
    ]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with faulty_endpoint(lambda prompt: "in private") as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server.base_url.replace("http:", "https:"), certificate


def test_an_endpoint_with_a_private_authority_is_asked_once_that_is_trusted(private_endpoint, monkeypatch):
    url, certificate = private_endpoint
    for model in ("", MODEL):  # looked up first, through another library
        config = EndpointConfig(llm_base_url=url, llm_model=model, llm_deadline_seconds=30.0)
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(
            AuthenticationFailed, match=r"not trusted here \(self.signed certificate\); set SSL_CERT_FILE"
        ):
            answered(config)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert answered(config) == "in private"


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
