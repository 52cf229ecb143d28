"""A stage in a container survives the death of its process, and nothing else is tried again."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED
from ease_lib.running.run_context import IMAGE
from ease_lib.running.supervision import RESTARTS

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from ease_lib.running import supervision
supervision.WAITS_SECONDS = {waits}
supervision.supervised()
begun = Path("begun")
begun.open("a").write(f"{{os.getpid()}}\\n")
times = len(begun.read_text().split())
{work}
"""


@pytest.fixture
def stage(tmp_path):
    """Starts the program; it is a stage in a container by what its environment says."""

    def start(work, *, image="cpu:1", waits=(0, 0, 0), **more):
        environment = {**os.environ, IMAGE: image}
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(work=work, waits=waits)],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    return start


def begun(tmp_path, least=1):
    """Processes that did the work, once there are so many."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = (tmp_path / "begun").read_text().split() if (tmp_path / "begun").exists() else []
        if len(found) >= least:
            return [int(process) for process in found]
        time.sleep(0.02)
    raise AssertionError("it never began")


def test_a_killed_process_is_followed_by_another(stage, tmp_path):
    process = stage("time.sleep(30 if times == 1 else 0)")
    os.kill(begun(tmp_path)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert len(begun(tmp_path)) == 2
    assert "the stage's process was killed by SIGKILL; it continues in 0 s (1 of 3 times)" in said


@pytest.mark.parametrize(
    ("work", "code", "times"),
    [
        ("pass", 0, 1),
        (f"sys.exit({EXIT_ERROR})", EXIT_ERROR, 1),
        ("raise ValueError", 1, 1),
        (f"sys.exit({EXIT_STOPPED})", EXIT_STOPPED, 1 + RESTARTS),
        (f"sys.exit({EXIT_STOPPED} if times < 3 else 0)", 0, 3),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV, 1 + RESTARTS),
        ("os.abort()", 128 + signal.SIGABRT, 1 + RESTARTS),
    ],
)
def test_what_may_pass_is_tried_again_a_stated_number_of_times(stage, tmp_path, work, code, times):
    process = stage(work)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert len(begun(tmp_path)) == times


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_passed_on_and_ends_it(stage, tmp_path, number):
    work = f"signal.signal({number:d}, lambda *_: sys.exit({EXIT_STOPPED})); Path('ready').touch(); time.sleep(30)"
    process = stage(work)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == EXIT_STOPPED
    assert len(begun(tmp_path)) == 1


def test_a_signal_to_the_whole_process_group_reaches_the_stage_once(tmp_path, stage):
    """Argo sends it this way; the stage finishes what it does then."""
    work = (
        "told = Path('told'); signal.signal(signal.SIGTERM, lambda *_: told.open('a').write('x'))\n"
        "Path('ready').touch(); time.sleep(1); time.sleep(1)"
    )
    process = stage(work, start_new_session=True)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert (tmp_path / "told").read_text() == "x"


def test_a_stop_while_it_waits_to_begin_again_ends_it(stage, tmp_path):
    process = stage("os.kill(os.getpid(), signal.SIGKILL)", waits=(60, 60, 60))
    assert "it continues in 60 s" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == EXIT_STOPPED


def test_outside_of_containers_it_is_one_process(stage, tmp_path):
    process = stage("print(os.getpid(), file=sys.stderr); sys.exit(75)", image="")
    _, said = process.communicate(timeout=20)
    assert process.returncode == EXIT_STOPPED
    assert int(said) == process.pid
