"""Signals that tell a process of EASE to stop: SIGTERM (an evicted pod) or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SAME_STOP_SECONDS = 5.0
"""Time after a SIGTERM in which another one counts as the same, because a process group may receive it repeatedly."""
_told = -SAME_STOP_SECONDS


@contextmanager
def sigterm_as_interrupt(also: Callable[[], None] = lambda: None) -> Iterator[None]:
    """SIGTERM raises `KeyboardInterrupt` as Ctrl-C does, which cancels running requests in an orderly way.

    One within `SAME_STOP_SECONDS` of another changes nothing: what the first one ends is ended in an orderly way.

    Args:
        also: called first, inside the signal handler.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        global _told
        if time.monotonic() - _told < SAME_STOP_SECONDS:
            return
        _told = time.monotonic()
        also()
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


@contextmanager
def open_event_loop() -> Iterator[asyncio.Runner]:
    """An event loop whose waiting ends with any signal.

    By itself it would sleep on, as long as nothing else happens, through a signal that arrives between its last step
    and the system call in which it waits (or at another thread): that call is not interrupted.
    """
    with asyncio.Runner() as runner:
        if threading.current_thread() is not threading.main_thread():  # signals are handled in the main thread
            yield runner
            return
        written, read = socket.socketpair()
        with written, read:
            written.setblocking(False)
            read.setblocking(False)
            loop = runner.get_loop()
            loop.add_reader(read, read.recv, 4096)
            before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
            try:
                yield runner
            finally:
                signal.set_wakeup_fd(before)
                loop.remove_reader(read)


def cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what waits in an event loop, as an interrupt does in the main thread; to be called from another thread."""

    def cancel() -> None:
        for task in asyncio.all_tasks(loop):
            task.cancel()

    with suppress(RuntimeError):  # it has ended
        loop.call_soon_threadsafe(cancel)
