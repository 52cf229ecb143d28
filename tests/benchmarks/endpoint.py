"""An OpenAI-compatible endpoint that does nothing but answer, at once or after a while: what clients are measured on.

It speaks just enough HTTP for a POST with a content-length, which every client here sends. While it takes its time it
counts the requests that it has, so that it knows how busy it was kept. Half of its answers are right: which, depends on
the whole prompt, so sequences differ.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MODEL = "instant"


def response(text: str, chat: bool) -> bytes:
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    content = {
        **{"id": "answer", "object": "chat.completion", "created": 0, "model": MODEL},
        "choices": [{"index": 0, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
    }
    body = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


class Busy:
    """Requests under way over time: `mean` of them from the first request to the last."""

    def __init__(self) -> None:
        self.now, self.last, self.area, self.first = 0, 0.0, 0.0, 0.0
        self.at_last_request = 0.0, 0.0

    def changes(self, by: int) -> None:
        moment = time.monotonic()
        self.first = self.first or moment
        self.area += self.now * (moment - self.last)
        self.now, self.last = self.now + by, moment
        if by > 0:
            self.at_last_request = moment, self.area

    @property
    def mean(self) -> float:
        moment, area = self.at_last_request
        return area / (moment - self.first) if moment > self.first else 0.0


class Connection(asyncio.Protocol):
    """One connection: requests in order."""

    def __init__(self, mean: float, spread: float, busy: Busy) -> None:
        self.mean, self.spread, self.busy = mean, spread, busy
        self.answers = {(text, chat): response(text, chat) for text in ("yes", "no") for chat in (True, False)}
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.received) < end + 4 + length:
                return
            text = ("yes", "no")[zlib.crc32(self.received[end + 4 : end + 4 + length]) % 2]
            self.received = self.received[end + 4 + length :]
            answer = self.answers[text, b"/chat/" in head.split(b"\r\n", 1)[0]]
            if not self.mean:
                self.transport.write(answer)
            else:
                self.busy.changes(+1)
                wait = random.uniform(self.mean - self.spread, self.mean + self.spread)
                asyncio.get_running_loop().call_later(wait, self.reply, answer)

    def reply(self, answer: bytes) -> None:
        self.busy.changes(-1)
        self.transport.write(answer)


async def serve(mean: float, spread: float) -> None:
    loop, busy = asyncio.get_running_loop(), Busy()
    server = await loop.create_server(lambda: Connection(mean, spread, busy), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(busy.mean, flush=True)


@dataclass
class Endpoint:
    """Base URL of an endpoint and, once it has ended, how many requests it had in flight over time."""

    url: str
    mean_under_way: float = 0.0


@contextmanager
def endpoint(mean_seconds: float = 0.0, spread_seconds: float = 0.0) -> Iterator[Endpoint]:
    """Run an endpoint in its own process."""
    command = [sys.executable, "-m", "tests.benchmarks.endpoint", str(mean_seconds), str(spread_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        served = Endpoint(f"http://127.0.0.1:{child.stdout.readline().strip()}/v1")
        try:
            yield served
        finally:
            child.stdin.close()
            served.mean_under_way = float(child.stdout.readline())


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))
