"""An OpenAI-compatible endpoint over real HTTP that fails on demand."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer

MODEL = "test-model"
Fault = Callable[["FaultyHandler", str], None]
"""Answers a prompt wrongly."""


@dataclass
class Script:
    """Script of the endpoint: `faults` are used up, one per request; then every request is answered.

    `on_request` sees every prompt as it comes in; `finished` counts the answers that were sent, by prompt.
    """

    answer: Callable[[str], str]
    faults: list[Fault] = field(default_factory=list)
    on_request: Callable[[str], None] = lambda prompt: None
    finished: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    running: int = 0
    most_running: int = 0
    latency_seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class FaultyServer(OpenAIRoutesServer):
    script: Script


class FaultyHandler(OpenAIRoutesHandler):
    server: FaultyServer

    def answer_prompt(self, prompt: str) -> None:
        script = self.server.script
        script.on_request(prompt)
        with script.lock:
            script.requests += 1
            script.running += 1
            script.most_running = max(script.most_running, script.running)
            fault = script.faults.pop(0) if script.faults else None
        try:
            time.sleep(script.latency_seconds)
            if fault:
                fault(self, prompt)
                return
            self.reply(200, self.completion(prompt, script.answer(prompt)))
            with script.lock:
                script.finished[prompt] += 1
        finally:
            with script.lock:
                script.running -= 1


@contextmanager
def faulty_endpoint(
    answer: Callable[[str], str], *faults: Fault, latency_seconds: float = 0.0
) -> Iterator[FaultyServer]:
    """Serve on a free loopback port; `server.base_url` and `server.script` are for the test."""
    server = FaultyServer({MODEL: answer})
    server.RequestHandlerClass = FaultyHandler
    server.script = Script(answer, list(faults), latency_seconds=latency_seconds)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def status(code: int, message: str = "fault", error_code: str = "fault", **headers: str) -> Fault:
    """An error status with OpenAI's error body; header names with dashes for underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, prompt: handler.reply_error(code, error_code, message, named)


def body(content: bytes, content_type: str = "application/json") -> Fault:
    """A 200 with this body."""

    def fault(handler: FaultyHandler, prompt: str) -> None:
        handler.send_response(200)
        handler.send_header("content-type", content_type)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return fault


def finish(reason: str, text: str = "") -> Fault:
    """A well-formed answer with this text and finish reason."""

    def fault(handler: FaultyHandler, prompt: str) -> None:
        response = handler.completion(prompt, text)
        response["choices"][0]["finish_reason"] = reason
        handler.reply(200, response)

    return fault


def message(finish_reason: str = "stop", usage: Mapping[str, Any] | None = None, **fields: Any) -> Fault:
    """An answer of the chat API with these fields of its message, and what it counts."""

    def fault(handler: FaultyHandler, prompt: str) -> None:
        response = handler.completion(prompt, "")
        choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **fields}}
        handler.reply(200, {**response, "choices": [choice], "usage": usage or response["usage"]})

    return fault


def reset_mid_body(handler: FaultyHandler, prompt: str) -> None:
    """Announce a body, send half of it, reset the connection."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def hang(seconds: float) -> Fault:
    """Answer nothing for a while, then close."""

    def fault(handler: FaultyHandler, prompt: str) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return fault
