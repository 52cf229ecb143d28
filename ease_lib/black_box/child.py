"""Start an endpoint of our own as a child process, and stop it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ease_lib.errors import ConnectionFailed
from ease_lib.machine import child_environment

PROGRAMS = {"local": "ease_lib.black_box.local_llm"}
START_SECONDS = 120.0
STOP_SECONDS = 5.0
LOG_TAIL_BYTES = 4096


@contextmanager
def child_endpoint(name: str, log: Path | None = None) -> Iterator[str]:
    """Run `local` for the length of the context.

    Args:
        log: file that takes what the endpoint prints; None keeps nothing of it.

    Yields:
        its base URL.

    Raises:
        ConnectionFailed: when it does not start, with the end of its log.
    """
    with log.open("a+b") if log else tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [sys.executable, "-m", PROGRAMS[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=child_environment(),
        )
        try:
            port = _announced_port(child, START_SECONDS)
            if port is None:
                child.kill()
                raise ConnectionFailed(f"the {name} endpoint did not start: {_last_line(output)}{_kept_in(log)}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child by closing its standard input; kill it if it goes on."""
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


def _announced_port(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The port that the child reports; None if it ends or does not report one in time."""
    assert child.stdout is not None
    said = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            more = os.read(child.stdout.fileno(), 65536)  # what there is; a whole line may never come
            said += more
            for line in said.split(b"\n")[:-1]:
                if line.startswith(b'{"port"'):
                    return int(json.loads(line)["port"])
            if not more:
                return None
    return None


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def _kept_in(log: Path | None) -> str:
    return f"; its log is {log}" if log else ""
