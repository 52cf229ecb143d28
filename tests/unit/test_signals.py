import asyncio
import signal
import socket
import threading
import time
import warnings

import pytest

from ease_lib import signals
from ease_lib.signals import open_event_loop, sigterm_as_interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_does_not_interrupt_the_wait_ends_it_all_the_same(number):
    """Another thread gets it here, as by chance the main one does between its last step and its wait."""

    async def wait_for_it():
        def take_it():
            time.sleep(0.3)
            signal.pthread_kill(threading.get_ident(), number)

        threading.Thread(target=take_it).start()
        await asyncio.sleep(30)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), sigterm_as_interrupt(), open_event_loop() as runner:
        runner.run(wait_for_it())
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("depth", [1, 2])
def test_a_second_sigterm_does_not_break_off_what_the_first_one_began(depth, monkeypatch):
    told, done = [], []

    def stopped():
        try:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(10)
        finally:
            signal.raise_signal(signal.SIGTERM)
            done.append("inner")

    def one():
        with sigterm_as_interrupt(lambda: told.append("told")):
            stopped()

    def two():
        with sigterm_as_interrupt(lambda: told.append("told")):
            try:
                one()
            finally:
                signal.raise_signal(signal.SIGTERM)
                done.append("outer")

    before = signal.getsignal(signal.SIGTERM)
    for _ in range(2):  # and the next stop is heeded again
        monkeypatch.setattr(signals, "_told", -signals.SAME_STOP_SECONDS)
        with pytest.raises(KeyboardInterrupt):
            (one if depth == 1 else two)()
    assert told == ["told"] * 2
    assert done == (["inner", "outer"] if depth == 2 else ["inner"]) * 2
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_later_sigterm_is_heeded_where_the_first_was_lost(monkeypatch):
    """Python drops the exceptions of a finaliser."""
    monkeypatch.setattr(signals, "_told", -signals.SAME_STOP_SECONDS)
    monkeypatch.setattr(signals, "SAME_STOP_SECONDS", 0.2)

    class Finalised:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def stopped_twice():
        with sigterm_as_interrupt(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Finalised()
            time.sleep(0.3)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        stopped_twice()


def test_an_event_loop_leaves_signals_as_it_found_them():
    written, read = socket.socketpair()
    with written, read:
        written.setblocking(False)
        signal.set_wakeup_fd(written.fileno())
        with open_event_loop() as runner:
            assert runner.run(asyncio.sleep(0, "done")) == "done"
        assert signal.set_wakeup_fd(-1) == written.fileno()


def test_an_event_loop_runs_in_any_thread():
    answers = []

    def work():
        with open_event_loop() as runner:
            answers.append(runner.run(asyncio.sleep(0, "done")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == ["done"]
