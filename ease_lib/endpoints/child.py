"""Start an endpoint of our own as a child process, and stop it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ease_lib.errors import ConnectionFailed

OWN_ENDPOINTS = ("local", "simulated")
START_SECONDS = 120.0
STOP_SECONDS = 5.0


_shared: tuple[ExitStack, dict[str, str]] | None = None
"""Inside of `shared_endpoints`: what ends them all, and their base URLs by name."""


@contextmanager
def shared_endpoints() -> Iterator[None]:
    """Inside, an endpoint that was started stays up for whoever needs it next, until the context ends."""
    global _shared
    with ExitStack() as stack:
        _shared = stack, {}
        try:
            yield
        finally:
            _shared = None


@contextmanager
def running_endpoint(name: str, log: Path) -> Iterator[str]:
    """Run `local` or `simulated` for the length of the context, or of `shared_endpoints` around it.

    Args:
        log: file that takes what the endpoint prints.

    Yields:
        its base URL.

    Raises:
        ConnectionFailed: when it does not start, with the end of its log.
    """
    if _shared is None:
        with _child_endpoint(name, log) as url:
            yield url
        return
    stack, urls = _shared
    if name not in urls:
        urls[name] = stack.enter_context(_child_endpoint(name, log))
    yield urls[name]


@contextmanager
def _child_endpoint(name: str, log: Path) -> Iterator[str]:
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", f"ease_lib.endpoints.{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    try:
        yield f"http://127.0.0.1:{_announced_port(child, name, log)}/v1"
    finally:
        if child.stdin:
            child.stdin.close()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout:
            child.stdout.close()


def announce(port: int) -> None:
    """Called by the child once it listens."""
    print(json.dumps({"port": port}), flush=True)


def wait_for_parent() -> None:
    """Called by the child: returns when the parent closes the pipe or dies."""
    sys.stdin.buffer.read()


def _announced_port(child: subprocess.Popen[bytes], name: str, log: Path) -> int:
    deadline = time.monotonic() + START_SECONDS
    while child.stdout and time.monotonic() < deadline:
        line = child.stdout.readline()
        if not line:
            break
        if line.startswith(b'{"port"'):
            return int(json.loads(line)["port"])
    child.kill()
    tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if log.exists() else []
    raise ConnectionFailed(f"the {name} endpoint did not start: {''.join(tail) or 'no output'}; its log is {log}")
