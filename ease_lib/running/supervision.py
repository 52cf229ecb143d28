"""Restarts of a stage in a container: a child process runs it, and runs again after a death that was not its fault.

A process that is killed (for example by the kernel for its memory), crashes, or fails for a temporary reason is
replaced by another, which reads the answers so far from the journal. Kubeflow 2.17 itself retries nothing but deleted
pods. This does not survive the end of the whole container: Kubernetes may be configured to kill all processes of a
container that is out of memory (cgroup v2 without `singleProcessOOMKill`); a retry in Kubeflow then continues.

The child has its own process group, because Argo signals the whole group of its command, and the child would otherwise
receive each signal twice.
"""

from __future__ import annotations

import os
import signal
import sys

from ease_lib.errors import EXIT_STOPPED
from ease_lib.running.log import BEGINS_AGAIN
from ease_lib.running.run_context import KILLED, in_container, no_attempt_follows

RESTARTS = 3
WAITS_SECONDS = (5.0, 30.0, 120.0)
"""Wait before each further attempt; only the stage's deadline cuts it short."""
DEADLY = frozenset({-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE})
"""Exit codes of processes that did not end by themselves."""
_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
_WATCHED = _STOPPING | {signal.SIGCHLD}
"""Signals blocked in the parent, which handles them one by one, so that none is lost between two attempts."""


def supervised() -> None:
    """Return in a child process whose work is watched, in a container; elsewhere return at once.

    To be called before much is loaded, so that the parent is small and has no threads.
    """
    if not in_container():
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    died: list[str] = []
    for restart in range(RESTARTS + 1):
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            if restart == RESTARTS:
                no_attempt_follows(" or ".join(dict.fromkeys(died)))
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        code, was_told_to_stop = _ended(child)
        again = code in DEADLY or code == EXIT_STOPPED
        if was_told_to_stop or not again or restart == RESTARTS:
            _exit(code)
        died.append(
            f"{KILLED}{signal.Signals(-code).name}" if code < 0 else "failed for a reason that may be temporary"
        )
        reason = died[-1]
        wait = WAITS_SECONDS[restart]
        _say(f"the stage's process {reason}{BEGINS_AGAIN}{wait:g} s ({restart + 1} of {RESTARTS} times)")
        if signal.sigtimedwait(_STOPPING, wait):
            _exit(EXIT_STOPPED)


def _ended(child: int) -> tuple[int, bool]:
    """Return the child's exit code, negative for a signal, and whether this process was told to stop, which is passed
    on to the child."""
    was_told = False
    while True:
        number = signal.sigwait(_WATCHED)
        if number in _STOPPING:
            was_told = True
            os.kill(child, number)
        else:
            ended, status = os.waitpid(child, os.WNOHANG)  # not when it was stopped or went on
            if ended:
                return os.waitstatus_to_exitcode(status), was_told


def _say(text: str) -> None:
    print(f"[ease] notice: {text}", file=sys.stderr, flush=True)


def _exit(code: int) -> None:
    """Exit without the cleanup that the child has done; after a signal, with the code that a shell gives it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if code >= 0 else 128 - code)
