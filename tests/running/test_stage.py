"""A stage as a process: how it ends when it is told to stop, or given what it cannot use."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ease_lib.config.parsing import parse_parameters, read_by
from ease_lib.errors import EXIT_ERROR
from ease_lib.running.stage import EXIT_STOPPED, LocalArtifact, perform, user_errors
from ease_lib.stages import prefilter
from tests.support.runs import opened_run

STAGE = """
import asyncio, signal, sys, time
from ease_lib.signals import open_event_loop
from ease_lib.running.stage import logger, user_errors

async def ask():
    logger.info("asking")
    try:
        await asyncio.sleep(60)
    finally:
        logger.info("request cancelled")

def compute():
    logger.info("asking")
    for _ in range(600):
        time.sleep(0.1)

if "ignored" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells do for jobs in the background
with user_errors("search"):
    if "await" in sys.argv:
        with open_event_loop() as runner:
            runner.run(ask())
    else:
        compute()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("work", ["await", "compute"])
@pytest.mark.parametrize("inherited", ["default", "ignored"])
def test_a_signal_ends_a_stage_in_order_with_its_own_code(number, work, inherited):
    stage = subprocess.Popen([sys.executable, "-c", STAGE, work, inherited], stderr=subprocess.PIPE, text=True)
    lines = []
    for line in stage.stderr:
        lines.append(line.strip())
        if line.startswith("[ease] asking"):
            start = time.monotonic()
            os.kill(stage.pid, number)
    assert stage.wait() == EXIT_STOPPED
    assert time.monotonic() - start < 10
    assert lines[-1] == "[ease] stopped: search was told to stop; answers so far are kept"
    assert ("[ease] request cancelled" in lines) == (work == "await")


def test_a_stage_names_bad_files(tmp_path, capsys):
    (tmp_path / "pool").write_text("x")
    artifacts = {name: LocalArtifact(str(tmp_path / name)) for name in ("pool", "kept")}
    artifacts["tops"] = [LocalArtifact("v")]
    with pytest.raises(SystemExit) as ended, user_errors("prefilter"), opened_run() as run:
        perform(prefilter, read_by([prefilter.Config], parse_parameters({})), artifacts, run)
    assert ended.value.code == EXIT_ERROR
    assert "cannot be read" in capsys.readouterr().err
