"""An OpenAI-compatible endpoint that does nothing but answer, at once or after a while: what clients are measured on.

It speaks just enough HTTP for a POST with a content-length, which every client here sends, and notes how many requests
it had at once.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TEXT = "positive"
MODEL = "instant"
CHAT = {"message": {"role": "assistant", "content": TEXT}}
COMPLETION = {"text": TEXT}


def response(choice: dict[str, object]) -> bytes:
    content = {
        **{"id": "answer", "object": "chat.completion", "created": 0, "model": MODEL},
        "choices": [{"index": 0, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
    }
    body = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


class Connection(asyncio.Protocol):
    """One connection: requests in order."""

    answers = (response(CHAT), response(COMPLETION))

    def __init__(self, mean: float, spread: float) -> None:
        self.mean, self.spread = mean, spread
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.received) < end + 4 + length:
                return
            self.received = self.received[end + 4 + length :]
            answer = self.answers[b"/chat/" not in head.split(b"\r\n", 1)[0]]
            if not self.mean:
                self.transport.write(answer)
            else:
                wait = random.uniform(self.mean - self.spread, self.mean + self.spread)
                asyncio.get_running_loop().call_later(wait, self.transport.write, answer)


async def serve(mean: float, spread: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(mean, spread), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def endpoint(mean_seconds: float = 0.0, spread_seconds: float = 0.0) -> Iterator[str]:
    """Its base URL; in a process of its own, as any endpoint."""
    command = [sys.executable, "-m", "tests.benchmarks.endpoint", str(mean_seconds), str(spread_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}/v1"
        child.terminate()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))
