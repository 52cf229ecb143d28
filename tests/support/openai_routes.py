"""An HTTP server with the OpenAI routes around functions from prompt to answer."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str], str]


class OpenAIRoutesServer(ThreadingHTTPServer):
    """Serves `/v1/models`, `/v1/completions` and `/v1/chat/completions` on a loopback port.

    Args:
        models: for each model it serves, the text for a prompt (the last message of a chat).
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, models: Mapping[str, Answer], port: int = 0) -> None:
        self.models = models
        super().__init__(("127.0.0.1", port), OpenAIRoutesHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off, because it was killed or gave up, is not our error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class OpenAIRoutesHandler(BaseHTTPRequestHandler):
    """Answers one connection; tests derive their faulty endpoint from it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body, a write of its own, would wait 40 ms for an acknowledgement
    server: OpenAIRoutesServer
    model: str
    """The one that the current request asks for."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.reply(
                200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.models]}
            )
        else:
            self.reply_error(404, "not_found", f"no route {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            request = json.loads(body)
            prompt = (
                request["messages"][-1]["content"] if self.path.endswith("/chat/completions") else request["prompt"]
            )
        except (ValueError, LookupError, TypeError):
            self.reply_error(400, "bad_request", "a JSON body with prompt or messages is needed")
            return
        self.model = str(request.get("model"))
        if self.model not in self.server.models:
            self.reply_error(404, "model_not_found", f"the model {self.model} does not exist")
            return
        self.answer_request(request, prompt)

    def answer_request(self, request: Mapping[str, Any], prompt: str) -> None:
        self.answer_prompt(prompt)

    def answer_prompt(self, prompt: str) -> None:
        self.reply(200, self.completion(prompt, self.server.models[self.model](prompt)))

    def completion(self, prompt: str, text: str) -> dict[str, Any]:
        """The response body; tokens are counted as words."""
        chat = self.path.endswith("/chat/completions")
        content = {"message": {"role": "assistant", "content": text}} if chat else {"text": text, "logprobs": None}
        used = {"prompt_tokens": len(prompt.split()), "completion_tokens": max(1, len(text.split()))}
        return {
            "id": "answer",
            "object": "chat.completion" if chat else "text_completion",
            "created": 0,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": "stop", **content}],
            "usage": {**used, "total_tokens": sum(used.values())},
        }

    def reply(self, status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def reply_error(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.reply(status, {"error": {"message": message, "type": code, "code": code}}, headers)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: there are thousands."""


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serve for as long as the context lasts."""
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
